"""The template keeps its promises on access: least privilege, private data, logs that end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cfnlint
import pytest
import tomllib
from samtranslator.yaml_helper import yaml_parse
from tests.support.repository import ROOT

from sam_on_moto.iam import policies
from trainyard_contracts.places import REPLACE_TAG, STAGE_TAG

TEMPLATE = yaml_parse((ROOT / "template.yaml").read_text())
RESOURCES: dict[str, Any] = TEMPLATE["Resources"]
#: AWS's service authorization reference, as cfn-lint carries it.
#: It maps an action to the resource types to which it can be limited.
AUTHORIZATION = json.loads(
    (Path(cfnlint.__file__).parent / "data/AdditionalSpecs/Policies.json").read_text()
)
#: Session Manager's reference names EC2, managed and ECS targets only.
#: What HyperPod nodes need was never tried.
ONLY_DOCUMENTED_WITH_A_STAR = {"ssm:StartSession"}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _of_type(kind: str) -> dict[str, Any]:
    return {
        name: resource["Properties"]
        for name, resource in RESOURCES.items()
        if resource["Type"] == kind
    }


def _statements() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, role in _of_type("AWS::IAM::Role").items():
        for policy in role["Policies"]:
            for statement in policy["PolicyDocument"]["Statement"]:
                yield name, statement


def _resource_types(action: str) -> list[str]:
    """The resource types of an action; fails for an action that does not exist."""
    service, name = action.split(":")
    known = {key.lower(): value for key, value in AUTHORIZATION[service.lower()]["Actions"].items()}
    assert name.lower() in known, f"{action} is not an action of {service}"
    types: list[str] = known[name.lower()].get("Resources", [])
    return types


def _policies_of(role: str) -> list[dict[str, Any]]:
    return [statement for name, statement in _statements() if name == role]


def test_every_action_of_every_role_exists() -> None:
    for role, statement in _statements():
        for action in _list(statement["Action"]):
            assert "*" not in action, f"{role}: {action} is a wildcard"
            _resource_types(action)


#: boto3 clients by the names that the adapters give them.
CLIENTS = {
    "_dynamodb": "dynamodb", "_s3": "s3", "_sagemaker": "sagemaker", "_sfn": "states",
    "_ssm": "ssm", "_secrets": "secretsmanager", "_pricing": "pricing", "_sqs": "sqs",
    "logs": "logs", "_logs": "logs", "_iam": "iam", "_fsx": "fsx", "_ec2": "ec2",
    "_cloudwatch": "cloudwatch", "_scheduler": "scheduler", "_events": "events",
    "_sns": "sns",
}  # fmt: skip
#: What AWS asks for beside the calls themselves.
IMPLIED = {
    "logs:CreateLogStream", "logs:PutLogEvents", "s3:ListBucket", "sqs:SendMessage", "iam:PassRole",
    "sagemaker:AddTags", "secretsmanager:TagResource", "iam:CreateServiceLinkedRole", "iam:TagRole",
    # FSx does these with its caller's rights (AWS's managed policy AmazonFSxFullAccess).
    "fsx:TagResource", "ec2:DescribeSecurityGroups", "ec2:DescribeVpcs",
    "ec2:GetSecurityGroupsForVpc", "iam:AttachRolePolicy",
    "iam:TagPolicy", "execute-api:Invoke",  # the latter by HTTP, and not by boto3
    "s3:DeleteObject",  # DeleteObjects asks for it, object by object
}  # fmt: skip


def test_no_function_may_do_what_no_adapter_calls() -> None:
    calls = re.compile(rf"\b({'|'.join(CLIENTS)})\.([a-z]+(?:_[a-z]+)*)\b")
    sources = "\n".join(path.read_text() for path in (ROOT / "layers/core/trainyard").rglob("*.py"))
    called = {
        f"{CLIENTS[client]}:{''.join(word.title() for word in call.split('_'))}"
        for client, call in calls.findall(sources)
    }
    for role, statement in _statements():
        if role in ("ApiRole", "StepsRole", "OnFactRole", "SweepRole"):
            assert set(_list(statement["Action"])) <= called | IMPLIED, role


def test_whoever_reads_lifecycle_logs_may_ask_which_instance_failed() -> None:
    for role in {
        role
        for role, statement in _statements()
        if "logs:GetLogEvents" in _list(statement["Action"])
    }:
        allowed = {
            action for statement in _policies_of(role) for action in _list(statement["Action"])
        }
        assert "sagemaker:DescribeCluster" in allowed, role


def test_a_star_stands_only_where_the_service_has_no_resource_to_name() -> None:
    for role, statement in _statements():
        if "*" in _list(statement["Resource"]):
            for action in set(_list(statement["Action"])) - ONLY_DOCUMENTED_WITH_A_STAR:
                assert _resource_types(action) == [], (
                    f"{role}: {action} can be limited to {_resource_types(action)}"
                )


def test_sessions_to_anything_but_cluster_nodes_are_denied_wherever_sessions_are_allowed() -> None:
    for role in {
        name
        for name, statement in _statements()
        if "ssm:StartSession" in _list(statement["Action"])
    }:
        denials = [
            s
            for s in _policies_of(role)
            if s["Effect"] == "Deny" and "ssm:StartSession" in _list(s["Action"])
        ]
        assert [
            resource["Fn::Sub"].rsplit(":", 1)[1].split("/")[0]
            for resource in denials[0]["Resource"]
        ] == [
            "instance",
            "managed-instance",
            "task",
        ]


def test_no_denial_covers_a_session_to_a_node_of_hyperpod() -> None:
    node = (
        "arn:aws:ssm:us-west-2:123456789012:managed-instance/sagemaker-cluster:abc_workers-i-0123"
    )
    for role, statement in _statements():
        if statement["Effect"] == "Deny":
            patterns = [_arn_pattern(resource) for resource in _list(statement["Resource"])]
            assert not policies.matches(patterns, node), (
                f"{role}: {statement['Sid']} denies every command to a node"
            )


def test_whoever_may_open_sessions_may_by_the_arns_that_aws_documents() -> None:
    needed = ["managed-instance/sagemaker-cluster:*", "document/AWS-StartNonInteractiveCommand"]
    for role in {
        name
        for name, statement in _statements()
        if "ssm:StartSession" in _list(statement["Action"])
    }:
        allowed = [
            s
            for s in _policies_of(role)
            if s["Effect"] == "Allow" and "ssm:StartSession" in _list(s["Action"])
        ]
        named = [
            _arn_pattern(resource).split(":", 5)[5]
            for resource in allowed[0]["Resource"]
            if resource != "*"
        ]
        assert named == needed, role


def _arn_pattern(resource: Any) -> str:
    return "*" if resource == "*" else re.sub(r"\$\{AWS::\w+\}", "*", resource["Fn::Sub"])


#: What takes a cluster's nodes or the cluster itself away.
ENDS_CLUSTERS = {
    "sagemaker:DeleteCluster",
    "sagemaker:BatchReplaceClusterNodes",
    "sagemaker:BatchRebootClusterNodes",
}


def test_nobody_can_end_or_repair_a_cluster_that_does_not_carry_the_stacks_tag() -> None:
    cluster = AUTHORIZATION["sagemaker"]["Resources"]["cluster"]
    assert "aws:ResourceTag/${TagKey}" in cluster["ConditionKeys"], (
        "AWS knows the tags of clusters in conditions"
    )
    found = [
        (role, statement)
        for role, statement in _statements()
        if ENDS_CLUSTERS & set(_list(statement["Action"]))
    ]
    assert {role for role, _ in found} == {
        "ApiRole", "StepsRole", "SweepRole", "SlackWorkerRole",
    }  # fmt: skip
    for role, statement in found:
        assert set(_list(statement["Action"])) <= ENDS_CLUSTERS, role
        assert {
            resource
            for action in _list(statement["Action"])
            for resource in _resource_types(action)
        } == {"cluster"}
        # Whoever made a cluster may let a stack repair its nodes; nobody lets it be deleted.
        deletes = "sagemaker:DeleteCluster" in _list(statement["Action"])
        tags = [STAGE_TAG] if deletes else [STAGE_TAG, REPLACE_TAG]
        assert statement["Condition"] in [
            {"StringEquals": {f"aws:ResourceTag/{tag}": {"Ref": "AWS::StackName"}}} for tag in tags
        ], role


def test_functions_may_make_the_own_roles_of_sagemaker_and_fsx_and_no_other() -> None:
    made = [s for _, s in _statements() if "iam:CreateServiceLinkedRole" in _list(s["Action"])]
    own = "role/aws-service-role/"
    assert sorted(s["Resource"]["Fn::Sub"].partition(own)[2] for s in made) == [
        "fsx.amazonaws.com/AWSServiceRoleForAmazonFSx",
        "hyperpod.sagemaker.amazonaws.com/AWSServiceRoleForSageMakerHyperPod",
        FSX_REPOSITORIES,
    ]
    for statement in made:
        service = statement["Resource"]["Fn::Sub"].partition(own)[2].partition("/")[0]
        if not statement["Resource"]["Fn::Sub"].endswith(FSX_REPOSITORIES):
            assert statement["Condition"] == {"StringEquals": {"iam:AWSServiceName": service}}


def test_whoever_makes_a_cluster_may_make_the_role_that_the_accounts_first_one_needs() -> None:
    """A dependent action of CreateCluster (service authorization reference)."""
    own = "role/aws-service-role/hyperpod.sagemaker.amazonaws.com/"
    for role in {r for r, s in _statements() if "sagemaker:CreateCluster" in _list(s["Action"])}:
        allowed = [
            statement["Resource"]["Fn::Sub"]
            for statement in _policies_of(role)
            if statement["Effect"] == "Allow"
            and "iam:CreateServiceLinkedRole" in _list(statement["Action"])
        ]
        assert [one for one in allowed if own in one], role
    assert any("sagemaker:CreateCluster" in _list(s["Action"]) for s in _policies_of("StepsRole"))


def test_only_the_sweep_changes_filesystems_and_only_with_this_stacks_tag() -> None:
    ours = {"Ref": "AWS::StackName"}
    for role, statement in _statements():
        changing = [
            action
            for action in _list(statement["Action"])
            if action.startswith("fsx:") and not action.startswith("fsx:Describe")
        ]
        if not changing:
            continue
        assert role == "SweepRole"
        condition = statement["Condition"]
        tags = [
            key
            for test in condition.values()
            for key, value in test.items()
            if key.endswith(f"Tag/{STAGE_TAG}") and value == ours
        ]
        assert tags, statement["Sid"]
        if "fsx:DeleteFileSystem" in changing:
            assert condition == {"StringEquals": {f"aws:ResourceTag/{STAGE_TAG}": ours}}


#: FSx's own role for the bucket of each filesystem with a repository.
FSX_REPOSITORIES = "s3.data-source.lustre.fsx.amazonaws.com/*"
NODE_ROLES = {
    "Fn::Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:role/trainyard/${AWS::StackName}/*"
}


NODE_POLICIES = {
    "Fn::Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:policy/parallelcluster/trainyard/"
    "${AWS::StackName}/*"
}


def test_commands_and_terminations_reach_instances_with_the_tag_of_this_stack_only() -> None:
    for role, statement in _statements():
        if "instance/*" not in json.dumps(statement["Resource"]) or statement["Effect"] == "Deny":
            continue
        assert statement["Condition"] == {
            "StringEquals": {f"aws:ResourceTag/{STAGE_TAG}": {"Ref": "AWS::StackName"}}
        }, role


def test_commands_run_by_one_document() -> None:
    documents = {
        json.dumps(statement["Resource"])
        for _, statement in _statements()
        if "ssm:SendCommand" in _list(statement["Action"]) and "Condition" not in statement
    }
    assert len(documents) == 1
    assert documents.pop().endswith('::document/AWS-RunShellScript"}')


def test_roles_are_passed_to_two_services_and_are_those_of_this_stack() -> None:
    passing = [
        statement for _, statement in _statements() if "iam:PassRole" in _list(statement["Action"])
    ]
    services = {
        "sagemaker.amazonaws.com": NODE_ROLES,
        "scheduler.amazonaws.com": {"Fn::GetAtt": ["SchedulesRole", "Arn"]},
    }
    passed = {
        statement["Condition"]["StringEquals"]["iam:PassedToService"]: statement["Resource"]
        for statement in passing
    }
    assert passed == services


def test_a_schedule_may_call_the_function_of_steps_and_nothing_else() -> None:
    (statement,) = _policies_of("SchedulesRole")
    assert statement["Action"] == "lambda:InvokeFunction"
    assert statement["Resource"]["Fn::Sub"].endswith(":function:${AWS::StackName}-steps")


def test_schedules_are_changed_in_this_stacks_group_only() -> None:
    changing = [
        (role, statement)
        for role, statement in _statements()
        if any(action.startswith("scheduler:") for action in _list(statement["Action"]))
    ]
    assert {role for role, _ in changing} == {"ApiRole", "SweepRole"}
    for _, statement in changing:
        assert statement["Resource"]["Fn::Sub"].endswith(":schedule/${AWS::StackName}/*")


def test_no_function_can_give_a_role_more_than_the_boundary() -> None:
    for role, statement in _statements():
        for action in _list(statement["Action"]):
            if not action.startswith("iam:") or action in (
                "iam:PassRole",
                "iam:ListRoles",
                "iam:ListPolicies",
                "iam:CreateServiceLinkedRole",
            ):
                continue
            if statement["Sid"] == "FsxReachesRepositories":
                assert statement["Resource"]["Fn::Sub"].endswith(f"-role/{FSX_REPOSITORIES}")
                continue
            if action in ("iam:CreatePolicy", "iam:TagPolicy", "iam:DeletePolicy"):
                # Which no function can attach: ParallelCluster's API does, within its own boundary.
                assert statement["Resource"] == NODE_POLICIES, f"{role}: {action}"
                continue
            assert statement["Resource"] == NODE_ROLES, f"{role}: {action}"
            if action in ("iam:CreateRole", "iam:PutRolePolicy"):
                assert statement["Condition"] == {
                    "StringEquals": {"iam:PermissionsBoundary": {"Ref": "NodeBoundary"}}
                }
            else:
                assert action in ("iam:TagRole", "iam:DeleteRole", "iam:DeleteRolePolicy"), (
                    f"{role}: {action} widens a role"
                )


def test_every_function_has_a_role_and_a_log_group_of_its_own() -> None:
    functions = _of_type("AWS::Serverless::Function").values()
    roles = [function["Role"]["Fn::GetAtt"][0] for function in functions]
    groups = [function["LoggingConfig"]["LogGroup"]["Ref"] for function in functions]
    assert len(set(roles)) == len(set(groups)) == len(roles) == 8
    for role, group in zip(roles, groups, strict=True):
        (own,) = [s for s in _policies_of(role) if s["Sid"] == "OwnLog"]
        assert own["Resource"] == {"Fn::Sub": f"${{{group}.Arn}}"}


def test_every_bucket_is_private_encrypted_and_speaks_tls_only() -> None:
    for name, bucket in _of_type("AWS::S3::Bucket").items():
        assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}, name
        assert bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"], name
        assert bucket["BucketName"]["Fn::Sub"].startswith("sagemaker-"), (
            "HyperPod asks for that of lifecycle scripts"
        )
        (policy,) = [
            p for p in _of_type("AWS::S3::BucketPolicy").values() if p["Bucket"] == {"Ref": name}
        ]
        (statement,) = policy["PolicyDocument"]["Statement"]
        assert statement["Effect"] == "Deny"
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_the_table_can_be_restored_to_any_second_and_outlives_the_stack() -> None:
    table = _of_type("AWS::DynamoDB::Table")["Table"]
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["SSESpecification"] == {"SSEEnabled": True}
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expiresAt", "Enabled": True}
    for keeper in ("Table", "DataBucket"):
        assert (
            RESOURCES[keeper]["DeletionPolicy"]
            == RESOURCES[keeper]["UpdateReplacePolicy"]
            == "Retain"
        )


def test_every_log_group_forgets_after_the_chosen_days() -> None:
    groups = _of_type("AWS::Logs::LogGroup")
    assert groups
    assert all(group["RetentionInDays"] == {"Ref": "LogRetentionDays"} for group in groups.values())


def _watched() -> set[tuple[str, str]]:
    """(metric, logical id of what it is about) of every alarm."""
    found = set()
    for alarm in _of_type("AWS::CloudWatch::Alarm").values():
        metrics = (
            [m["MetricStat"]["Metric"] for m in alarm["Metrics"] if "MetricStat" in m]
            if "Metrics" in alarm
            else [alarm]
        )
        for metric in metrics:
            for dimension in metric["Dimensions"]:
                about = dimension["Value"].get("Ref") or dimension["Value"]["Fn::GetAtt"][0]
                found.add((metric["MetricName"], about))
    return found


def test_alarms_watch_dead_letters_executions_functions_and_the_sweep() -> None:
    queues = {("ApproximateNumberOfMessagesVisible", name) for name in _of_type("AWS::SQS::Queue")}
    machines = {
        (metric, name)
        for name in _of_type("AWS::Serverless::StateMachine")
        for metric in ("ExecutionsFailed", "ExecutionsTimedOut")
    }
    functions = {("Errors", name) for name in _of_type("AWS::Serverless::Function")}
    assert (
        queues | machines | functions | {("Invocations", "SweepFunction"), ("5xx", "Api")}
        <= _watched()
    )


def test_a_silent_sweep_rings_and_a_first_deployment_does_not() -> None:
    """A new alarm is in INSUFFICIENT_DATA; only the change to it from OK calls."""
    alarm = _of_type("AWS::CloudWatch::Alarm")["NoSweepAlarm"]
    assert alarm["TreatMissingData"] == "missing"
    assert alarm["InsufficientDataActions"] == alarm["AlarmActions"]


def test_the_documented_build_uses_the_versions_that_make_check_builds_with() -> None:
    manual = (ROOT / "docs/operations.md").read_text()
    assert "       sam build " in manual
    assert '"--constraint", str(LOCK)' in (ROOT / "scripts/layer.py").read_text()


def test_no_deployment_is_tagged_with_the_name_of_another_stack() -> None:
    assert (
        "tags"
        not in tomllib.loads((ROOT / "samconfig.toml").read_text())["default"]["deploy"][
            "parameters"
        ]
    )


def test_nothing_of_slack_is_there_unless_its_signing_secret_is_named() -> None:
    named = {name for name in RESOURCES if name.startswith("Slack")}
    of_runs = {name for name in named if name.startswith("SlackRuns")}
    assert (len(named), len(of_runs)) == (11, 4)
    for name in named:
        condition = "HasSlackRuns" if name in of_runs else "HasSlack"
        assert RESOURCES[name]["Condition"] == condition, name
    needs = TEMPLATE["Conditions"]["HasSlackRuns"]["Fn::And"]
    assert {"Condition": "HasSlack"} in needs
    assert len(needs) == 3
    assert TEMPLATE["Parameters"]["SlackChannel"]["Default"] == ""
    assert TEMPLATE["Parameters"]["SlackSigningSecretArn"]["Default"] == ""
    whole = json.dumps(
        {name: one for name, one in RESOURCES.items() if name not in named}
    ) + json.dumps(TEMPLATE["Outputs"])
    assert '"Slack' not in whole, "a stack without Slack would refer to what is not there"


def test_what_slack_waits_for_reads_one_secret_and_sends_events_of_slack_alone() -> None:
    secret, queue = [s for s in _policies_of("SlackRole") if s["Sid"] != "OwnLog"]
    assert secret["Action"] == "secretsmanager:GetSecretValue"
    assert secret["Resource"] == {"Ref": "SlackSigningSecretArn"}
    assert queue["Action"] == "events:PutEvents"
    assert queue["Condition"] == {"StringEquals": {"events:source": "trainyard.slack"}}
    may = [s for role in ("NodeBoundary",) for s in _boundary(role)]
    sources = [s["Condition"] for s in may if "events:PutEvents" in _list(s["Action"])]
    assert sources == [{"StringEquals": {"events:source": "trainyard.agent"}}]


def test_what_shows_runs_in_slack_changes_no_run() -> None:
    statements = {s["Sid"]: s for s in _policies_of("SlackRunsRole")}
    assert sorted(statements) == ["BotToken", "OwnLog", "People", "ReadTable", "WhatWasShown"]
    assert statements["BotToken"]["Resource"] == {"Ref": "SlackBotTokenArn"}
    assert set(_list(statements["WhatWasShown"]["Action"])) == {
        "dynamodb:PutItem",
        "dynamodb:UpdateItem",
    }
    assert statements["WhatWasShown"]["Condition"] == {
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["slack#*", "audit#*", "audit-id#*"]}
    }


def _boundary(name: str) -> list[dict[str, Any]]:
    statements: list[dict[str, Any]] = RESOURCES[name]["Properties"]["PolicyDocument"]["Statement"]
    return statements


def test_the_worker_of_slack_may_nothing_that_the_api_may_not_but_read_two_secrets() -> None:
    own = [s for s in _policies_of("SlackWorkerRole") if s["Sid"] not in ("OwnLog", "Nodes")]
    (people,) = [s for s in own if s not in _policies_of("ApiRole")]
    assert (people["Sid"], people["Action"]) == ("PeopleAndForms", "secretsmanager:GetSecretValue")
    assert people["Resource"] == [
        {"Fn::If": ["HasSlackPeople", {"Ref": "SlackPeopleArn"}, {"Ref": "SlackSigningSecretArn"}]},
        {"Fn::If": ["HasSlackToken", {"Ref": "SlackBotTokenArn"}, {"Ref": "AWS::NoValue"}]},
    ]
    (nodes,) = [s for s in _policies_of("SlackWorkerRole") if s["Sid"] == "Nodes"]
    (api,) = [s for s in _policies_of("ApiRole") if s["Sid"] == "Nodes"]
    assert set(nodes["Action"]) < set(api["Action"])
    assert nodes["Resource"] == api["Resource"]


def test_the_worker_of_slack_makes_no_schedule_opens_no_session_and_reads_no_log() -> None:
    may = {a for s in _policies_of("SlackWorkerRole") for a in _list(s["Action"])}
    assert {a for a in may if a.startswith(("scheduler:", "iam:", "logs:Get"))} == set()
    assert "ssm:StartSession" not in may


@pytest.mark.parametrize("event", ["AgentEvents", "ClusterEvents"])
def test_a_fact_that_cannot_be_delivered_is_retried_and_then_parked(event: str) -> None:
    properties = RESOURCES["OnFactFunction"]["Properties"]["Events"][event]["Properties"]
    assert properties["RetryPolicy"]["MaximumRetryAttempts"] > 0
    assert properties["DeadLetterConfig"]["Arn"] == {"Fn::GetAtt": ["FactsDeadLetters", "Arn"]}

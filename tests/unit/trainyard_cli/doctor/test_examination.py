"""doctor says nothing of a sound account, and says of each planted fault what to do."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import botocore.session
import pytest
from moto import mock_aws
from tests.support.other_backend import OtherSpec
from tests.support.recorded_account import DNS, GROUP, SUBNET, RecordedAccount, sound

from trainyard_cli.doctor import command
from trainyard_cli.doctor.account import Account, NotAnswered
from trainyard_cli.doctor.examination import examine, examine_all, names
from trainyard_cli.doctor.scope import Scope
from trainyard_cli.main import run as trainyard
from trainyard_cli.problems import InvalidInput

RUN: dict[str, Any] = {
    "name": "demo",
    "cluster": {"spec": {
        "name": "demo",
        "instanceGroups": [
            {"name": "controller", "role": "controller", "instanceType": "ml.c5.xlarge",
             "count": 1},
            {"name": "workers", "role": "worker", "instanceType": "ml.c5.4xlarge", "count": 2,
             "spares": 1, "ebs": {"sizeGib": 500}},
        ],
        "network": {"subnetIds": [SUBNET], "securityGroupIds": [GROUP]},
        "sharedFilesystem": {"dnsName": DNS, "mountName": "abcdefgh"},
        "environment": {"kind": "venv", "requirements": ["torch==2.13.0"]},
        "jobSecrets": ["trainyard-jobs/hf"],
    }},
    "job": {"nodes": 2, "module": "trainyard_trainers.ddp"},
}  # fmt: skip
CLUSTER = RUN["cluster"]["spec"]
PLAN = "arn:aws:sagemaker:us-west-2:123456789012:training-plan/plan"
Plant = Callable[[dict[str, Any], dict[str, Any]], object]


def first(answers: dict[str, Any], operation: str, key: str) -> dict[str, Any]:
    return answers[operation][key][0]


def group(spec: dict[str, Any]) -> dict[str, Any]:
    return spec["cluster"]["spec"]["instanceGroups"][1]


def denied(action: str, **why: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def simulate(request: dict[str, Any]) -> dict[str, Any]:
        results = [
            {
                "EvalActionName": name,
                "EvalDecision": "explicitDeny" if name == action else "allowed",
                **(why if name == action else {}),
            }
            for name in request["ActionNames"]
        ]
        return {"EvaluationResults": results}

    return simulate


def located(region: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Where the bucket of the inputs lies; the stack's own lies where it should."""
    return lambda request: {
        "LocationConstraint": region if request["Bucket"] == "sagemaker-corpus" else "us-west-2"
    }


def set_in(answers: dict[str, Any], operation: str, value: Any) -> None:
    answers[operation] = value


def preferences(**inputs: Any) -> dict[str, Any]:
    return {"Name": "SSM-SessionManagerRunShell", "Content": json.dumps({"inputs": inputs})}


def let_in(*ranges: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The filesystem's own security group lets these addresses in, and no group."""

    def describe(request: dict[str, Any]) -> dict[str, Any]:
        if request["Filters"][0]["Values"] == ["sg-fsx"]:
            rules = [
                {
                    "IpProtocol": "tcp",
                    "FromPort": 988,
                    "ToPort": 1023,
                    "IpRanges": [{"CidrIp": one}],
                }
                for one in ranges
            ]
            return {"SecurityGroups": [{"GroupId": "sg-fsx", "IpPermissions": rules}]}
        return copy.deepcopy(sound()["ec2:DescribeSecurityGroups"])

    return describe


@pytest.mark.parametrize(
    "ranges", [("10.1.0.0/16",), ("0.0.0.0/0",), ("192.168.0.0/16", "10.1.2.0/23")]
)
def test_a_filesystem_may_let_the_nodes_in_by_their_addresses(ranges: tuple[str, ...]) -> None:
    account = RecordedAccount()
    account.answers["ec2:DescribeSecurityGroups"] = let_in(*ranges)
    first(account.answers, "ec2:DescribeNetworkInterfaces", "NetworkInterfaces")["Groups"] = [
        {"GroupId": "sg-fsx"}
    ]
    assert examine(account, Scope.of(RUN)) == []


@pytest.mark.parametrize(("name", "sound"), [("lab", True), ("other", False)])
def test_a_filesystem_that_a_spec_names_is_found_by_the_tags_of_this_stack(
    name: str, sound: bool
) -> None:
    account, spec = RecordedAccount(), copy.deepcopy(RUN)
    spec["cluster"]["spec"]["sharedFilesystem"] = {"filesystem": name}
    first(account.answers, "fsx:DescribeFileSystems", "FileSystems")["Tags"] = [
        {"Key": "trainyard:stage", "Value": account.stack_name},
        {"Key": "trainyard:filesystem", "Value": "lab"},
    ]
    found = examine(account, Scope.of(spec))
    if sound:
        assert found == []
        return
    (missing,) = found
    assert missing.subject.endswith("sharedFilesystem.filesystem")
    assert "has no filesystem 'other'" in missing.problem
    assert "trainyard filesystem create" in missing.remedy


def test_a_profile_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    assert trainyard(["doctor", "--profile", "no-such-profile"]) == 7
    assert "no-such-profile" in capsys.readouterr().err


def test_of_a_sound_account_nothing_is_said() -> None:
    assert examine(RecordedAccount(), Scope.of(RUN)) == []
    assert examine(RecordedAccount(), Scope.of(CLUSTER)) == []
    assert examine(RecordedAccount(), Scope.of(None)) == []


PLANTED: list[tuple[str, Plant, str, str]] = [
    ("credentials", lambda a, _: set_in(
        a, "sts:GetCallerIdentity", NotAnswered("sts", "ExpiredToken", "expired")),
     "failure", "ExpiredToken"),
    ("permissions", lambda a, _: set_in(
        a, "iam:SimulatePrincipalPolicy", denied("execute-api:Invoke")), "failure", "you (arn:"),
    ("permissions", lambda a, _: set_in(a, "iam:SimulatePrincipalPolicy", denied(
        "sagemaker:CreateCluster", OrganizationsDecisionDetail={"AllowedByOrganizations": False})),
     "failure", "a service control policy"),
    ("stack", lambda a, _: set_in(a, "cloudformation:DescribeStacks", NotAnswered(
        "cloudformation:DescribeStacks", "ValidationError",
        "Stack with id trainyard does not exist")), "failure", "there is no stack"),
    ("stack", lambda a, _: first(a, "cloudformation:DescribeStacks", "Stacks").update(
        StackStatus="UPDATE_ROLLBACK_FAILED"), "failure", "ROLLBACK"),
    ("stack", lambda a, _: (
        a["cloudformation:DescribeStackDriftDetectionStatus"].update(StackDriftStatus="DRIFTED"),
        a["cloudformation:DescribeStackResourceDrifts"]["StackResourceDrifts"].append({
            "StackId": "s", "LogicalResourceId": "Bus", "ResourceType": "AWS::Events::EventBus",
            "StackResourceDriftStatus": "DELETED",
            "Timestamp": "2026-11-01T00:00:00Z"})), "failure", "was deleted"),
    ("stack", lambda a, _: a["cloudformation:DescribeStackDriftDetectionStatus"].update(
        DetectionStatus="DETECTION_IN_PROGRESS", StackDriftStatus="NOT_CHECKED"),
     "unknown", "drift detection is not through after 90 s"),
    ("stack", lambda a, _: a["cloudformation:DescribeStackDriftDetectionStatus"].update(
        DetectionStatus="DETECTION_FAILED", StackDriftStatus="NOT_CHECKED",
        DetectionStatusReason="no rights on Table"), "unknown", "no rights on Table"),
    ("bucket", lambda a, _: a["s3:GetBucketLocation"].update(LocationConstraint="eu-west-1"),
     "failure", "lies in eu-west-1"),
    ("quotas", lambda a, _: a["service-quotas:ListServiceQuotas"]["Quotas"][1].update(Value=4.0),
     "failure", "3 asked and 2 run already"),
    ("quotas", lambda _, s: group(s)["ebs"].update(sizeGib=600), "failure", "600 GiB asked"),
    ("offerings", lambda a, _:
        a["ec2:DescribeInstanceTypeOfferings"]["InstanceTypeOfferings"][1].update(
            Location="us-west-2c"), "failure", "only us-west-2c"),
    ("subnets", lambda a, _: first(a, "ec2:DescribeSubnets", "Subnets").update(
        AvailableIpAddressCount=2), "failure", "needs 4 addresses, 2"),
    ("security_groups", lambda a, _:
        first(a, "ec2:DescribeSecurityGroups", "SecurityGroups").update(
            IpPermissions=[{"IpProtocol": "tcp", "FromPort": 0, "ToPort": 65535,
                            "UserIdGroupPairs": [{"GroupId": GROUP}]}]),
     "failure", "all traffic from itself"),
    ("routes", lambda a, _: first(a, "ec2:DescribeRouteTables", "RouteTables").update(Routes=[]),
     "failure", "no endpoint for s3, ssm"),
    ("routes", lambda a, _: first(a, "ec2:DescribeRouteTables", "RouteTables")["Routes"][0].update(
        State="blackhole"), "failure", "nat-1, which is gone"),
    ("filesystem", lambda a, _:
        first(a, "fsx:DescribeFileSystems", "FileSystems")["LustreConfiguration"].update(
            MountName="zzzzzzzz"), "failure", "'zzzzzzzz'"),
    ("filesystem", lambda a, _: first(a, "fsx:DescribeFileSystems", "FileSystems").update(
        Lifecycle="MISCONFIGURED"), "failure", "MISCONFIGURED"),
    ("filesystem", lambda a, _: set_in(a, "ec2:DescribeSubnets", lambda request: {"Subnets": [{
        "SubnetId": SUBNET, "VpcId": "vpc-1", "AvailabilityZone": "us-west-2a",
        "AvailableIpAddressCount": 99, "CidrBlock": "10.1.2.0/24"}]}),
     "failure", "the nodes do not"),
    ("filesystem", lambda a, _: (
        set_in(a, "ec2:DescribeSecurityGroups", let_in("203.0.113.0/24")),
        first(a, "ec2:DescribeNetworkInterfaces", "NetworkInterfaces").update(
            Groups=[{"GroupId": "sg-fsx"}])), "failure", "the nodes in on TCP 988"),
    ("sessions", lambda a, _: set_in(a, "ssm:GetDocument", preferences(kmsKeyId="alias/k")),
     "failure", "every session is encrypted"),
    ("sessions", lambda a, _: set_in(
        a, "ssm:GetDocument", preferences(runAsEnabled=True, runAsDefaultUser="eve")),
     "warning", "sessions run as eve"),
    ("partitions", lambda _, s: group(s).update(partition="dev"),
     "failure", "login nodes included"),
    ("image", lambda _, s: s["cluster"]["spec"]["environment"].update(requirements=[]),
     "failure", "imports torch"),
    ("image", lambda _, s: s["cluster"]["spec"].update(
        s3Mounts=[{"bucket": "sagemaker-x", "mountPath": "/data"}]), "warning", "mount-s3"),
    ("image", lambda _, s: s["cluster"]["spec"]["environment"].update(kind="conda"),
     "failure", "the program conda"),
    ("image", lambda _, s: s["job"].update(arguments=["--config=/fsx/job.toml"]),
     "failure", "/fsx/job.toml is TOML"),
    ("job_secrets", lambda a, _: set_in(a, "secretsmanager:DescribeSecret", NotAnswered(
        "secretsmanager:DescribeSecret", "ResourceNotFoundException", "not there")),
     "failure", "there is no secret 'trainyard-jobs/hf'"),
    ("job_secrets", lambda a, _: a["secretsmanager:DescribeSecret"].update(
        DeletedDate="2026-12-01T00:00:00Z"), "failure", "scheduled for deletion"),
    ("job_secrets", lambda a, _: (
        a["secretsmanager:DescribeSecret"].update(KmsKeyId="k"),
        set_in(a, "kms:DescribeKey", {"KeyMetadata": {"KeyId": "k", "KeyManager": "CUSTOMER"}})),
     "failure", "a KMS key of your own"),
    ("job_secrets", lambda _, s: s["cluster"]["spec"].update(jobSecrets=["other/hf"]),
     "failure", "does not match the stack's parameter JobSecrets"),
    ("job_inputs", lambda a, s: (
        s["cluster"]["spec"].update(jobInputs=["s3://sagemaker-corpus/v1/"]),
        set_in(a, "s3:GetBucketLocation", located("eu-west-1"))),
     "failure", "lies in eu-west-1"),
    ("job_inputs", lambda _, s: s["cluster"]["spec"].update(jobInputs=["s3://other"]),
     "failure", "does not match the stack's parameter MountableBuckets"),
    ("training_plans", lambda a, s: (
        group(s).update(trainingPlanArn=PLAN),
        a["sagemaker:DescribeTrainingPlan"].update(Status="Expired")), "failure", "Expired"),
    ("training_plans", lambda a, s: (
        s["cluster"]["spec"].update(capacity=[{}, {"trainingPlanArn": PLAN}]),
        a["sagemaker:DescribeTrainingPlan"].update(Status="Failed")), "failure", "Failed"),
    ("budgets", lambda a, _:
        first(a, "budgets:DescribeBudgets", "Budgets")["CalculatedSpend"]["ActualSpend"].update(
            Amount="1000"), "warning", "are spent"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "plant", "severity", "words"),
    PLANTED,
    ids=[f"{number}-{one[0]}" for number, one in enumerate(PLANTED)],
)
def test_each_planted_fault_is_found_by_its_check_and_by_no_other(
    check: str, plant: Plant, severity: str, words: str
) -> None:
    account, spec = RecordedAccount(), copy.deepcopy(RUN)
    plant(account.answers, spec)
    found = examine(account, Scope.of(spec))
    assert {one.check for one in found} == {check}, found
    assert any(words in one.problem and one.severity == severity for one in found), found
    assert all(one.remedy and one.subject for one in found)


@pytest.mark.parametrize(
    ("bucket", "located_in", "words"),
    [
        ("sagemaker-corpus", "eu-west-1", "'sagemaker-corpus' lies in eu-west-1, the nodes in"),
        ("sagemaker-corpus", "us-west-2", ""),
        ("sagemaker-corpus", "", "there is no bucket 'sagemaker-corpus'"),
        ("other", "us-west-2", "does not match the stack's parameter MountableBuckets"),
    ],
)
def test_the_buckets_that_nodes_mount_are_looked_at(
    bucket: str, located_in: str, words: str
) -> None:
    """Beside the image, which need not have the program that mounts them."""
    account, spec = RecordedAccount(), copy.deepcopy(RUN)
    spec["cluster"]["spec"]["s3Mounts"] = [
        {"bucket": "sagemaker-first", "mountPath": "/first"},
        {"bucket": bucket, "mountPath": "/data"},
    ]

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if request["Bucket"] == "sagemaker-corpus" and not located_in:
            raise NotAnswered("s3:GetBucketLocation", "NoSuchBucket", "no such bucket")
        return located(located_in)(request)

    set_in(account.answers, "s3:GetBucketLocation", answer)
    found = [one for one in examine(account, Scope.of(spec)) if one.check != "image"]
    assert [one.check for one in found] == ["s3_mounts"] * bool(words)
    for one in found:
        assert (one.severity, one.subject) == ("failure", "cluster.spec.s3Mounts.1.bucket")
        assert words in one.problem
        assert one.remedy


def test_a_secret_of_the_console_names_the_accounts_own_key_and_is_sound() -> None:
    account = RecordedAccount()
    account.answers["secretsmanager:DescribeSecret"]["KmsKeyId"] = "k"
    account.answers["kms:DescribeKey"] = {"KeyMetadata": {"KeyId": "k", "KeyManager": "AWS"}}
    assert examine(account, Scope.of(RUN)) == []


def test_each_whole_spec_that_may_take_the_clusters_place_is_examined_too() -> None:
    spec = copy.deepcopy(RUN)
    spec["cluster"]["otherwise"] = [copy.deepcopy(CLUSTER), copy.deepcopy(CLUSTER)]
    assert examine_all(RecordedAccount(), Scope.every(spec)) == []
    spec["cluster"]["otherwise"][1]["jobSecrets"] = ["other/hf"]
    assert examine(RecordedAccount(), Scope.of(spec)) == []
    found = examine_all(RecordedAccount(), Scope.every(spec))
    assert [one.check for one in found] == ["job_secrets"]
    assert found[0].subject.startswith("cluster.otherwise.1.jobSecrets")


def test_what_every_way_needs_is_said_once() -> None:
    spec = copy.deepcopy(RUN)
    spec["cluster"]["otherwise"] = [copy.deepcopy(CLUSTER)]
    account = RecordedAccount()
    expired = NotAnswered("sts", "ExpiredToken", "expired")
    set_in(account.answers, "sts:GetCallerIdentity", expired)
    alone = examine(account, Scope.of(spec))
    assert [one.check for one in alone] == ["credentials"]
    assert examine_all(account, Scope.every(spec)) == alone


def test_every_check_has_a_planted_fault() -> None:
    # The faults of these are planted in tests of their own.
    others = {"parallelcluster", "s3_mounts"}
    assert {one[0] for one in PLANTED} | others == set(names())


def test_endpoints_for_every_service_are_as_good_as_a_nat() -> None:
    account = RecordedAccount()
    first(account.answers, "ec2:DescribeRouteTables", "RouteTables")["Routes"] = []
    services = ["ssm", "ssmmessages", "events", "secretsmanager", "logs", "sagemaker.api"]
    interfaces = [_endpoint(name, "Interface", PrivateDnsEnabled=True) for name in services]
    account.answers["ec2:DescribeVpcEndpoints"] = {
        "VpcEndpoints": [*interfaces, _endpoint("s3", "Gateway", RouteTableIds=["rtb-1"])]
    }
    assert examine(account, Scope.of(RUN)) == []
    interfaces[0]["State"] = "deleted"
    account = RecordedAccount()
    first(account.answers, "ec2:DescribeRouteTables", "RouteTables")["Routes"] = []
    account.answers["ec2:DescribeVpcEndpoints"] = {
        "VpcEndpoints": [*interfaces, _endpoint("s3", "Gateway", RouteTableIds=["rtb-2"])]
    }
    (found,) = examine(account, Scope.of(RUN))
    assert "no endpoint for s3, ssm;" in found.problem + ";"


def _endpoint(service: str, kind: str, **more: Any) -> dict[str, Any]:
    return {
        "ServiceName": f"com.amazonaws.us-west-2.{service}",
        "VpcEndpointType": kind,
        "State": "available",
        **more,
    }


def test_what_nobody_may_look_at_is_said_and_the_other_checks_go_on() -> None:
    account = RecordedAccount()
    account.answers["budgets:DescribeBudgets"] = NotAnswered(
        "budgets:DescribeBudgets", "AccessDeniedException", "no"
    )
    account.answers["s3:GetBucketLocation"] = {"LocationConstraint": "eu-west-1"}
    found = {one.check: one for one in examine(account, Scope.of(RUN))}
    assert set(found) == {"bucket", "budgets"}
    assert found["budgets"].severity == "unknown"
    assert "Allow budgets:DescribeBudgets" in found["budgets"].remedy


def test_that_instances_of_another_backend_are_not_checked_is_said() -> None:
    groups = [
        {"name": role, "role": role, "instanceType": "c5.large", "count": 1}
        for role in ("controller", "worker")
    ]
    spec = OtherSpec.model_validate({"name": "c", "backend": "other", "instanceGroups": groups})
    account = RecordedAccount()
    (found,) = examine(account, Scope(spec, prefix="cluster.spec."))  # type: ignore[arg-type]
    assert (found.severity, found.subject) == ("unknown", "cluster.spec.backend")
    assert "instances of 'other'" in found.problem
    assert "ec2:DescribeInstanceTypeOfferings" not in account.asked


def test_nothing_that_doctor_calls_changes_anything() -> None:
    account = RecordedAccount()
    examine(account, Scope.of(RUN))
    reading = ("Get", "List", "Describe", "Simulate", "DetectStackDrift")
    assert [name for name in account.asked if not name.partition(":")[2].startswith(reading)] == []
    assert (
        len(account.asked) == len(set(account.asked))
        or account.asked.count("iam:SimulatePrincipalPolicy") > 1
    )


def test_a_directory_of_the_spec_need_not_be_uploaded_to_be_examined() -> None:
    job = {"nodes": 1, "workdir": ".", "script": "train.py"}
    scope = Scope.of({**RUN, "job": job})
    assert scope.job is not None
    assert scope.job.script == "train.py"


def test_a_spec_that_the_api_would_refuse_is_refused_with_its_field() -> None:
    with pytest.raises(InvalidInput, match=r"job\.nodes"):
        Scope.of({**RUN, "job": {**RUN["job"], "nodes": 0}})


def test_the_command_prints_json_and_ends_with_1_where_something_will_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    account = RecordedAccount()
    account.answers["s3:GetBucketLocation"] = {"LocationConstraint": "eu-west-1"}
    monkeypatch.setattr(command, "_account", lambda *_: account)
    spec = tmp_path / "run.json"
    spec.write_text(json.dumps(RUN))
    assert trainyard(["doctor", str(spec), "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert [one["check"] for one in printed["findings"]] == ["bucket"]
    assert printed["checks"] == names()
    monkeypatch.setattr(command, "_account", lambda *_: RecordedAccount())
    assert trainyard(["doctor", str(spec)]) == 0
    assert "Nothing found" in capsys.readouterr().out


class OnMoto(Account):
    """moto answers a part of what AWS does; what it lacks counts as an answer that nobody got."""

    def _ask(
        self, service: str, operation: str, region: str, request: dict[str, Any]
    ) -> dict[str, Any]:
        try:
            return super()._ask(service, operation, region, request)
        except NotImplementedError as error:
            raise NotAnswered(f"{service}:{operation}", "NotImplemented", str(error)) from error


@mock_aws
def test_real_clients_make_the_calls_and_read_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """On moto nothing is deployed: every call that moto knows works, and no stack is found."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-west-2",
    }.items():
        monkeypatch.setenv(name, value)
    session = botocore.session.Session()
    ec2 = session.create_client("ec2", region_name="us-west-2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24", AvailabilityZone="us-west-2a")[
        "Subnet"
    ]["SubnetId"]
    security_group = ec2.create_security_group(GroupName="g", Description="d", VpcId=vpc)["GroupId"]
    spec = copy.deepcopy(CLUSTER)
    spec["network"] = {"subnetIds": [subnet], "securityGroupIds": [security_group]}
    found = examine(
        OnMoto(session, "us-west-2", "trainyard", sleep=lambda _seconds: None), Scope.of(spec)
    )
    by_check = {one.check: one for one in found}
    assert "there is no stack 'trainyard'" in by_check["stack"].problem
    assert "all traffic from itself" in by_check["security_groups"].problem
    assert "no endpoint for" in by_check["routes"].problem
    assert f"has the name {DNS}" in by_check["filesystem"].problem
    assert {"subnets", "sessions", "budgets", "credentials"}.isdisjoint(by_check)


@pytest.mark.parametrize(("code", "problem", "remedy"), [
    ("ExpiredToken", "does not take the credentials", "aws sso login"),
    ("NoCredentialsError", "does not take the credentials", "aws sso login"),
    ("EndpointConnectionError", "cannot be reached in us-west-2",
     "Is us-west-2 the name of the region"),
    ("ConnectTimeoutError", "cannot be reached in us-west-2", "network"),
    ("ProxyConnectionError", "cannot be reached in us-west-2", "proxy"),
    ("InvalidRegionError", "us-west-2 is no name of a region", "--region"),
    ("ProfileNotFound", "profile", "--profile"),
])  # fmt: skip
def test_who_does_not_reach_aws_is_not_told_to_log_in(code: str, problem: str, remedy: str) -> None:
    account = RecordedAccount()
    set_in(
        account.answers,
        "sts:GetCallerIdentity",
        NotAnswered("sts:GetCallerIdentity", code, "the config profile is not found"),
    )
    (found,) = examine(account, Scope.of(None))
    assert problem in found.problem
    assert code in found.problem
    assert remedy in found.remedy


@pytest.mark.parametrize("settings", [
    {"AWS_PROFILE": "nobody"}, {"AWS_CONFIG_FILE": "/etc/passwd"},
    {"AWS_CONFIG_FILE": "/etc/passwd", "AWS_REGION": "us-west-2"},
])  # fmt: skip
def test_settings_of_aws_that_cannot_be_read_are_told_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], settings: dict[str, str]
) -> None:
    for name in (
        "AWS_PROFILE",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
    ):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert trainyard(["doctor"]) in (1, 7)
    told = capsys.readouterr()
    assert "nobody" in told.err + told.out or "/etc/passwd" in told.err + told.out
    assert "Traceback" not in told.err


QUEUES: dict[str, Any] = {
    "name": "demo",
    "backend": "parallelcluster",
    "headNode": {"instanceType": "c5.xlarge", "subnetId": SUBNET},
    "queues": [
        {"name": "q", "instanceTypes": ["c5.4xlarge"], "max": 2, "subnetIds": [SUBNET]},
    ],
    "sharedStorage": [{"name": "s", "mountPath": "/fsx", "fsx": {"capacityGib": 1200}}],
}
API = "https://abcdefghij.execute-api.us-west-2.amazonaws.com/prod"


def of_queues(url: str = API, api: Any = None, **changes: Any) -> dict[str, list[str]]:
    """What doctor finds of a cluster of queues: the problems of each check."""
    account = RecordedAccount()
    stack = first(account.answers, "cloudformation:DescribeStacks", "Stacks")
    stack["Parameters"].append({"ParameterKey": "ParallelClusterApiUrl", "ParameterValue": url})
    sound_api = {"id": "abcdefghij", "tags": {"parallelcluster:version": "3.16.1"}}
    account.answers["apigateway:GetRestApi"] = api or sound_api
    found: dict[str, list[str]] = {}
    for one in examine(account, Scope.of({**QUEUES, **changes})):
        found.setdefault(one.check, []).append(one.problem)
    return found


def test_of_a_sound_cluster_of_queues_only_quotas_are_not_known() -> None:
    assert of_queues() == {
        "parallelcluster": [
            "doctor does not compare the queues with the quotas of vCPUs (on demand and spot)"
        ]
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"url": ""}, "ParallelClusterApiUrl is empty"),
        (
            {"api": NotAnswered("apigateway:GetRestApi", "NotFoundException", "no")},
            "has no API 'abcdefghij'",
        ),
        ({"api": {"tags": {"parallelcluster:version": "3.11.0"}}}, "version '3.11.0'"),
        (
            {
                "api": {
                    "tags": {"parallelcluster:version": "3.16.1"},
                    "policy": "... *:*/ParallelClusterApiUserRole-1* ...",
                }
            },
            "lets only the role ParallelClusterApiUserRole",
        ),
    ],
)
def test_what_keeps_parallelclusters_api_from_being_called_is_found(
    given: dict[str, Any], words: str
) -> None:
    assert words in of_queues(**given)["parallelcluster"][0]


def test_types_and_subnets_of_queues_are_looked_up() -> None:
    queue = {**QUEUES["queues"][0], "instanceTypes": ["c7a.4xlarge"]}
    found = of_queues(queues=[queue])
    assert found["offerings"] == ["us-west-2 does not offer it at all"]
    missing = {**QUEUES["queues"][0], "subnetIds": ["subnet-0123456789abcdeff"]}
    assert found.keys() & {"subnets"} == set()
    assert of_queues(queues=[missing])["subnets"] == ["there is no such subnet in us-west-2"]


def test_the_version_is_the_one_that_the_backend_speaks() -> None:
    from trainyard.backends.parallelcluster import refusals
    from trainyard_cli.doctor.checks import parallelcluster

    assert parallelcluster.VERSION == refusals.VERSION

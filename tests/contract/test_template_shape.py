"""Names, settings, layers and routes that others rely on, and that SAM translates them."""

from __future__ import annotations

import copy
import json
import marshal
import re
from pathlib import Path
from typing import Any

import pytest
import tomllib
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse
from scripts import layer as layer_script
from scripts import sam
from tests.support.repository import ROOT

TEMPLATE = yaml_parse((ROOT / "template.yaml").read_text())
RESOURCES: dict[str, Any] = TEMPLATE["Resources"]
SETTINGS = {
    "STAGE", "TABLE_NAME", "DATA_BUCKET", "EVENT_BUS_NAME", "DEAD_LETTERS_URL", "RUN_MACHINE_ARN",
    "CLUSTER_MACHINE_ARN", "TEARDOWN_MACHINE_ARN", "NODE_BOUNDARY_ARN", "SECRET_PREFIX",
    "SCHEDULE_GROUP", "STEPS_FUNCTION_ARN", "SCHEDULES_ROLE_ARN",
    "DEFAULT_SUBNET_IDS", "DEFAULT_SECURITY_GROUP_IDS", "HEARTBEAT_SECONDS", "ORPHAN_SECONDS",
    "PARALLELCLUSTER_API_URL",
}  # fmt: skip


class _NoManagedPolicies:
    """samtranslator wants to know managed policies by name; the template names none."""

    def load(self) -> dict[str, str]:
        return {}


def _of_type(kind: str) -> dict[str, Any]:
    return {
        name: resource["Properties"]
        for name, resource in RESOURCES.items()
        if resource["Type"] == kind
    }


@pytest.fixture(scope="module")
def translated() -> dict[str, Any]:
    template = copy.deepcopy(TEMPLATE)
    for resource in template["Resources"].values():
        properties = resource["Properties"]
        for local in {"CodeUri", "ContentUri", "DefinitionUri"} & set(properties):
            properties[local] = "s3://bucket/key"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        result: dict[str, Any] = transform(template, {}, _NoManagedPolicies())
    return result


def test_every_setting_of_the_functions_is_given(translated: dict[str, Any]) -> None:
    functions = [
        r["Properties"]
        for r in translated["Resources"].values()
        if r["Type"] == "AWS::Lambda::Function"
    ]
    assert len(functions) == 8
    for function in functions:
        assert set(function["Environment"]["Variables"]) >= SETTINGS


def test_every_function_is_a_folder_with_a_handler() -> None:
    for name, function in _of_type("AWS::Serverless::Function").items():
        assert (ROOT / function["CodeUri"] / "handler.py").is_file(), name


def test_functions_stop_before_their_callers_give_up() -> None:
    timeouts = {
        name: function["Timeout"]
        for name, function in _of_type("AWS::Serverless::Function").items()
    }
    assert timeouts == {
        "ApiFunction": 29,
        "StepsFunction": 120,
        "OnFactFunction": 30,
        "SweepFunction": 60,
        "WebhookFunction": 60,
        "SlackFunction": 5,
        "SlackWorkerFunction": 30,
        "SlackRunsFunction": 40,
    }


def test_what_unpacks_a_cluster_gets_the_node_layers_and_nothing_else_does() -> None:
    for name, function in _of_type("AWS::Serverless::Function").items():
        layers = {layer["Ref"] for layer in function["Layers"]}
        bundles = (
            {"NodeBundleLayer", "TrainersLayer", "JobLibraryLayer"}
            if name in {"ApiFunction", "StepsFunction", "SlackWorkerFunction"}
            else set()
        )
        own = {"CoreLayer"} if name == "SlackFunction" else {"ContractsLayer", "CoreLayer"}
        assert layers == own | bundles, name


@pytest.mark.parametrize("layer", ["ContractsLayer", "CoreLayer"])
def test_python_layers_are_built_for_the_functions_machine(layer: str) -> None:
    made = {
        "BuildMethod": "makefile",
        "BuildArchitecture": "arm64",
        "ContextPath": "layers",
        "WorkingDirectory": ".",
    }
    assert RESOURCES[layer]["Metadata"] == made
    folder = RESOURCES[layer]["Properties"]["ContentUri"]
    recipe = f'build-{layer}:\n\tpython3.13 scripts/layer.py {folder} "$(ARTIFACTS_DIR)"\n'
    assert recipe in (ROOT / "layers/Makefile").read_text()
    assert TEMPLATE["Globals"]["Function"]["Runtime"] == "python" + ".".join(
        map(str, layer_script.PYTHON)
    )
    assert TEMPLATE["Globals"]["Function"]["Architectures"] == ["arm64"]
    assert all(platform.endswith("_aarch64") for platform in layer_script.PLATFORMS)


def test_compiled_modules_of_a_layer_hold_whatever_time_a_zip_gives_their_sources(
    tmp_path: Path,
) -> None:
    package = tmp_path / "python/package"
    package.mkdir(parents=True)
    module = package / "module.py"
    module.write_text("VALUE = 1\n")
    layer_script.compile_all(tmp_path / "python")
    (compiled,) = package.glob("__pycache__/module.*.pyc")
    content = compiled.read_bytes()
    assert int.from_bytes(content[4:8], "little") == 0b01, (
        "checked against the source's time or content"
    )
    assert marshal.loads(content[16:]).co_filename == "/opt/python/package/module.py"


def test_a_built_layer_with_a_module_that_is_not_compiled_is_a_fault(tmp_path: Path) -> None:
    for layer, package in (("ContractsLayer", "trainyard_contracts"), ("CoreLayer", "trainyard")):
        (tmp_path / layer / "python" / package / "__pycache__").mkdir(parents=True)
        (tmp_path / layer / "python" / package / "__init__.py").touch()
        (tmp_path / layer / "python" / package / "__pycache__/__init__.cpython-313.pyc").touch()
    (tmp_path / "NodeBundleLayer/packages").mkdir(parents=True)
    for name in ("linux-x86_64.zip", "linux-aarch64.zip", "pip.whl"):
        (tmp_path / "NodeBundleLayer/packages" / name).touch()
    assert sam.faults(tmp_path) == []
    (tmp_path / "CoreLayer/python/trainyard/bare.py").touch()
    (fault,) = sam.faults(tmp_path)
    assert "holds 1 modules that are not compiled" in fault
    assert "trainyard/bare.py" in fault


def test_a_build_is_never_taken_from_a_cache_that_does_not_know_the_lock() -> None:
    """sam keeps a layer while its folder is the same; the lock lies elsewhere."""
    assert (
        tomllib.loads((ROOT / "samconfig.toml").read_text())["default"]["build"]["parameters"][
            "cached"
        ]
        is False
    )


@pytest.mark.parametrize("layer", ["layers/contracts", "layers/core"])
def test_layer_requirements_hold_packages_only(layer: str) -> None:
    """`sam build` on the host silently drops a relative path or `-e` in a layer's requirements."""
    for line in (ROOT / layer / "requirements.txt").read_text().splitlines():
        assert re.match(r"^[A-Za-z][A-Za-z0-9-]*(\[[a-z,]+\])?[<>=!~0-9.,]*$", line), line


def test_every_route_asks_for_a_signature_but_that_which_slack_signs(
    translated: dict[str, Any],
) -> None:
    (api,) = [
        r["Properties"]["Body"]
        for r in translated["Resources"].values()
        if r["Type"] == "AWS::ApiGatewayV2::Api"
    ]
    of_slack = ["/slack/commands", "/slack/events", "/slack/interactions"]
    assert sorted(api["paths"]) == [*of_slack, "/v1/{proxy+}"]
    for path in of_slack:
        condition, slack, nothing = api["paths"][path]["Fn::If"]
        assert (condition, nothing) == ("HasSlack", {"Ref": "AWS::NoValue"})
        assert list(slack) == ["post"]
        assert slack["post"]["Fn::If"][1]["security"] == [{"NONE": []}]
    (method,) = [
        value
        for key, value in api["paths"]["/v1/{proxy+}"].items()
        if key.startswith("x-amazon-apigateway-any")
    ]
    assert method["security"] == [{"AWS_IAM": []}]
    assert (
        api["components"]["securitySchemes"]["AWS_IAM"]["x-amazon-apigateway-authtype"]
        == "awsSigv4"
    )
    assert method["x-amazon-apigateway-integration"]["payloadFormatVersion"] == "2.0"


def test_machine_arns_in_the_settings_are_the_machines_names() -> None:
    variables = TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]
    for setting, machine in (
        ("RUN_MACHINE_ARN", "RunMachine"),
        ("CLUSTER_MACHINE_ARN", "ClusterMachine"),
        ("TEARDOWN_MACHINE_ARN", "TeardownMachine"),
    ):
        name = RESOURCES[machine]["Properties"]["Name"]["Fn::Sub"]
        assert variables[setting]["Fn::Sub"].endswith(f":stateMachine:{name}")


def test_machines_use_exactly_the_substitutions_they_are_given() -> None:
    for name, machine in _of_type("AWS::Serverless::StateMachine").items():
        used = set(re.findall(r"\$\{(\w+)\}", (ROOT / machine["DefinitionUri"]).read_text()))
        assert used == set(machine["DefinitionSubstitutions"]), name


def test_facts_come_from_agents_on_our_bus_and_from_aws_on_the_default_bus(
    translated: dict[str, Any],
) -> None:
    rules = [
        r["Properties"]
        for r in translated["Resources"].values()
        if r["Type"] == "AWS::Events::Rule"
    ]
    ours = [one["EventPattern"] for one in rules if one.get("EventBusName") == {"Ref": "Bus"}]
    aws = [one["EventPattern"] for one in rules if "EventBusName" not in one]
    of_runs = {
        "source": ["trainyard"],
        "detail-type": [{"prefix": "run."}, {"prefix": "approval."}],
    }
    by_source = {one["source"][0]: one for one in ours}
    assert by_source.pop("trainyard") == of_runs
    assert by_source == {
        source: {"source": [source]}
        for source in (
            "trainyard.agent",
            "trainyard.slack",
            "trainyard.webhooks",
            "trainyard.changes",
        )
    }
    assert sorted(aws, key=str) == [
        {
            "source": ["aws.cloudformation"],
            "detail-type": ["CloudFormation Stack Status Change"],
        },
        {
            "source": ["aws.ec2"],
            "detail-type": ["EC2 Spot Instance Interruption Warning"],
        },
        {
            "source": ["aws.sagemaker"],
            "detail-type": [
                "SageMaker HyperPod Cluster State Change",
                "SageMaker HyperPod Cluster Node Health Event",
                "SageMaker HyperPod Cluster Event",
                "SageMaker Training Job State Change",
            ],
        },
    ]


def test_the_sweep_runs_each_minute_and_so_does_what_shows_runs_in_slack(
    translated: dict[str, Any],
) -> None:
    sweep, slack = [
        r["Properties"]
        for r in translated["Resources"].values()
        if r["Type"] == "AWS::Scheduler::Schedule"
    ]
    for schedule in (sweep, slack):
        assert schedule["ScheduleExpression"] == "rate(1 minute)"
    assert sweep["Target"]["Arn"] == {"Fn::GetAtt": ["SweepFunction", "Arn"]}
    assert slack["Target"]["Arn"] == {"Fn::GetAtt": ["SlackRunsFunction", "Arn"]}


def test_names_in_one_account_never_clash_between_two_stages(translated: dict[str, Any]) -> None:
    named = {
        "FunctionName",
        "LogGroupName",
        "BucketName",
        "StateMachineName",
        "LayerName",
        "DashboardName",
    }
    for name, resource in translated["Resources"].items():
        explicit = {
            key: value
            for key, value in resource["Properties"].items()
            if key in named and "Ref" not in value
        }
        if resource["Type"] in ("AWS::Scheduler::Schedule", "AWS::Events::EventBus"):
            explicit["Name"] = resource["Properties"]["Name"]
        for key, value in explicit.items():
            assert "AWS::StackName" in json.dumps(value), f"{name}.{key} is the same in every stack"


def test_every_parameter_has_a_default_and_a_description() -> None:
    assert set(TEMPLATE["Parameters"]) == {
        "HeartbeatSeconds",
        "OrphanSeconds",
        "SubnetIds",
        "SecurityGroupIds",
        "MountableBuckets",
        "JobSecrets",
        "JobImages",
        "ParallelClusterApiUrl",
        "LogRetentionDays",
        "Admins",
        "Members",
        "Viewers",
        "AuditDays",
        "ApprovalAboveUsd",
        "ApprovalsNeeded",
        "ApprovalSeconds",
        "Approvers",
        "AlarmEmail",
        "SlackSigningSecretArn",
        "SlackPeopleArn",
        "SlackHooks",
        "SlackChannel",
        "SlackDigestHour",
        "SlackDigestZone",
        "SlackBotTokenArn",
        "SlackApi",
    }
    assert all(
        {"Default", "Description"} <= set(parameter)
        for parameter in TEMPLATE["Parameters"].values()
    )


@pytest.mark.parametrize(
    ("parameter", "good", "bad"),
    [
        (
            "SubnetIds",
            ["", "subnet-0a1b", "subnet-0a1b,subnet-2c3d"],
            ["subnet-0a1b, subnet-2c3d", "vpc-1", "subnet-0a1b,"],
        ),
        ("SecurityGroupIds", ["", "sg-0a1b", "sg-0a,sg-0b"], ["subnet-1", "sg-0a;sg-0b"]),
        ("AlarmEmail", ["", "a@b.org"], ["a", "a@b", "a b@c.org"]),
        (
            "SlackSigningSecretArn",
            ["", "arn:aws:secretsmanager:eu-west-1:111122223333:secret:slack-aBcDeF"],
            ["slack", "arn:aws:ssm:eu-west-1:111122223333:parameter/slack"],
        ),
        ("SlackChannel", ["", "C0123ABCDEF", "G0123ABCDEF"], ["#runs", "runs", "U0123ABCDEF"]),
        ("SlackDigestHour", ["", "0", "8", "23"], ["24", "08", "-1", "8:00", "noon"]),
        ("SlackDigestZone", ["UTC", "Europe/Berlin", "Etc/GMT+5"], ["", "Europe/", "a b", "../x"]),
        ("SlackApi", ["https://slack.com/api/"], ["", "https://slack.com/api", "ftp://x/"]),
        ("SlackHooks", ["https://hooks.slack.com/"], ["", "https://hooks.slack.com", "ftp://x/"]),
    ],
)
def test_parameters_refuse_what_could_not_work(
    parameter: str, good: list[str], bad: list[str]
) -> None:
    pattern = TEMPLATE["Parameters"][parameter]["AllowedPattern"]
    assert all(re.fullmatch(pattern, value) for value in good)
    assert not any(re.fullmatch(pattern, value) for value in bad)


def test_outputs_are_those_the_local_cloud_and_the_cli_read() -> None:
    assert set(TEMPLATE["Outputs"]) == {
        "ApiUrl",
        "DataBucketName",
        "TableName",
        "EventBusName",
        "NoticeTopicArn",
        "NodeBoundaryArn",
        "RunMachineArn",
    }

"""On moto: template.yaml takes what network.yaml makes, and doctor finds it sound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
import yaml
from moto import mock_aws
from samtranslator.yaml_helper import yaml_parse
from tests.support.botocore_model import request_problems
from tests.support.repository import ROOT

from trainyard_cli.doctor.account import Account
from trainyard_cli.doctor.checks import routes, security_groups, subnets
from trainyard_cli.doctor.checks.routes import SERVICES
from trainyard_cli.doctor.findings import Finding
from trainyard_cli.doctor.scope import Scope
from trainyard_contracts.cluster_parts import Network
from trainyard_contracts.filesystems import FilesystemSpec

TEXT = (ROOT / "network.yaml").read_text()
TEMPLATE: dict[str, Any] = yaml_parse(TEXT)
MAIN: dict[str, Any] = yaml_parse((ROOT / "template.yaml").read_text())
REGION = "us-west-2"


def without_fsx() -> str:
    """moto's CloudFormation makes no filesystem; all else is deployed as it stands."""
    template = yaml_parse(TEXT)
    for name in ("Filesystem", "FilesystemData"):
        del template["Resources"][name]
    for name in ("FilesystemDnsName", "FilesystemMountName"):
        del template["Outputs"][name]
    return yaml.safe_dump(template)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": REGION,
    }.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        yield botocore.session.Session()


def deploy(session: Any, **parameters: str) -> dict[str, str]:
    cloudformation = session.create_client("cloudformation", region_name=REGION)
    given = [
        {"ParameterKey": key, "ParameterValue": value}
        for key, value in {"Zone": "us-west-2a", **parameters}.items()
    ]
    cloudformation.create_stack(StackName="network", TemplateBody=without_fsx(), Parameters=given)
    (stack,) = cloudformation.describe_stacks(StackName="network")["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    associate(session, cloudformation)
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}


def associate(session: Any, cloudformation: Any) -> None:
    """Make the associations that the template asks for: moto's CloudFormation leaves them out."""
    made = cloudformation.list_stack_resources(StackName="network")["StackResourceSummaries"]
    ids = {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in made}
    ec2 = session.create_client("ec2", region_name=REGION)
    for resource in TEMPLATE["Resources"].values():
        properties = (
            resource["Properties"]
            if resource["Type"] == "AWS::EC2::SubnetRouteTableAssociation"
            else {}
        )
        subnet = ids.get(properties.get("SubnetId", {}).get("Ref"))
        if subnet:
            ec2.associate_route_table(
                SubnetId=subnet, RouteTableId=ids[properties["RouteTableId"]["Ref"]]
            )


def scope(outputs: dict[str, str]) -> Scope:
    groups = [
        {"name": "controller", "role": "controller", "instanceType": "ml.c5.xlarge", "count": 1},
        {"name": "workers", "role": "worker", "instanceType": "ml.p5.48xlarge", "count": 64},
    ]
    network = {
        "subnetIds": outputs["SubnetIds"].split(","),
        "securityGroupIds": outputs["SecurityGroupIds"].split(","),
    }
    filesystem = {
        "dnsName": "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com",
        "mountName": "abcdefgh",
    }
    return Scope.of(
        {"name": "c", "instanceGroups": groups, "network": network, "sharedFilesystem": filesystem}
    )


def findings(session: Any, outputs: dict[str, str]) -> list[Finding]:
    account = Account(session, REGION, "trainyard")
    return [
        one
        for check in (subnets, security_groups, routes)
        for one in check.check(account, scope(outputs))
    ]


@pytest.mark.parametrize("way_out", ["Nat", "Endpoints"])
@pytest.mark.parametrize("second", ["", "us-west-2b"])
def test_doctor_finds_nothing_wrong_with_the_network_that_it_makes(
    session: Any, way_out: str, second: str
) -> None:
    outputs = deploy(session, WayOut=way_out, SecondZone=second)
    assert findings(session, outputs) == []
    assert len(outputs["SubnetIds"].split(",")) == (2 if second else 1)


def test_doctor_notices_when_the_way_out_is_taken_away(session: Any) -> None:
    outputs = deploy(session, WayOut="Endpoints")
    ec2 = session.create_client("ec2", region_name=REGION)
    there = ec2.describe_vpc_endpoints()["VpcEndpoints"]
    lost = next(one for one in there if one["ServiceName"].endswith(".events"))
    ec2.delete_vpc_endpoints(VpcEndpointIds=[lost["VpcEndpointId"]])
    (found,) = findings(session, outputs)
    assert found.problem.endswith("no endpoint for events")


def test_its_outputs_are_parameters_of_the_main_template_and_fields_of_a_spec(session: Any) -> None:
    outputs = deploy(session, SecondZone="us-west-2b")
    for name in ("SubnetIds", "SecurityGroupIds"):
        assert re.fullmatch(MAIN["Parameters"][name]["AllowedPattern"], outputs[name])
    Network(
        subnet_ids=outputs["SubnetIds"].split(","),
        security_group_ids=outputs["SecurityGroupIds"].split(","),
    )
    assert {"FilesystemDnsName", "FilesystemMountName"} <= set(TEMPLATE["Outputs"])


def test_there_is_an_endpoint_for_every_service_that_nodes_call() -> None:
    made = {
        resource["Properties"]["ServiceName"]["Fn::Sub"].removeprefix(
            "com.amazonaws.${AWS::Region}."
        )
        for resource in TEMPLATE["Resources"].values()
        if resource["Type"] == "AWS::EC2::VPCEndpoint"
    }
    assert made == set(SERVICES)


def test_the_filesystem_that_may_hold_the_only_checkpoints_outlives_the_stack() -> None:
    filesystem = TEMPLATE["Resources"]["Filesystem"]
    assert filesystem["DeletionPolicy"] == filesystem["UpdateReplacePolicy"] == "Retain"


def allowed(parameter: str) -> list[Any]:
    """A parameter's allowed values, or its default and one of each kind that its pattern takes."""
    declared = TEMPLATE["Parameters"][parameter]
    if parameter == "DataRepository":
        return ["s3://my-archive", "s3://my.archive-1/lab/v1/", f"s3://{'b' * 63}/a_b"]
    values: list[Any] = declared["AllowedValues"]
    assert declared["Default"] in values
    return values


def resolved(value: Any, parameters: dict[str, Any]) -> Any:
    """A resource's properties with parameters in place, and an id for each other resource."""
    ids = {"Filesystem": "fs-0123456789abcdef0", "NodeSubnet": "subnet-0123456789abcdef0"}
    if isinstance(value, list):
        return [resolved(one, parameters) for one in value]
    if not isinstance(value, dict):
        return value
    if "Ref" in value:
        return parameters[value["Ref"]] if value["Ref"] in parameters else ids[value["Ref"]]
    if "Fn::GetAtt" in value:
        assert value == {"Fn::GetAtt": ["NodeGroup", "GroupId"]}
        return "sg-0123456789abcdef0"
    return {key: resolved(one, parameters) for key, one in value.items()}


@pytest.mark.parametrize("size", allowed("StorageGiB"))
@pytest.mark.parametrize("throughput", allowed("ThroughputPerTiB"))
def test_the_filesystem_fits_fsxs_model_and_what_fsx_offers(size: int, throughput: int) -> None:
    """CloudFormation's properties have the names of CreateFileSystem's members."""
    given = {"StorageGiB": size, "ThroughputPerTiB": throughput}
    request = resolved(TEMPLATE["Resources"]["Filesystem"]["Properties"], given)
    assert request_problems("fsx", "CreateFileSystem", request) == []
    lustre = request["LustreConfiguration"]
    offered = FilesystemSpec.model_validate({
        "name": "lab", "subnetId": request["SubnetIds"][0],
        "securityGroupIds": request["SecurityGroupIds"],
        "deployment": lustre["DeploymentType"], "storageGib": request["StorageCapacity"],
        "throughput": lustre["PerUnitStorageThroughput"],
    })  # fmt: skip
    assert offered.unit_throughput == throughput


@pytest.mark.parametrize("repository", allowed("DataRepository"))
def test_the_data_repository_fits_fsxs_model_and_writes_nothing_to_the_bucket(
    repository: str,
) -> None:
    pattern = TEMPLATE["Parameters"]["DataRepository"]["AllowedPattern"]
    assert re.fullmatch(pattern, repository)
    properties = TEMPLATE["Resources"]["FilesystemData"]["Properties"]
    request = resolved(properties, {"DataRepository": repository})
    assert request_problems("fsx", "CreateDataRepositoryAssociation", request) == []
    assert request["DataRepositoryPath"] == repository
    assert list(request["S3"]) == ["AutoImportPolicy"]


def test_a_repository_is_for_a_kind_of_filesystem_that_has_one() -> None:
    """CreateDataRepositoryAssociation: "supported on all FSx for Lustre 2.12 and 2.15 file systems,
    excluding scratch_1 deployment type" (botocore's model).
    """
    filesystem = TEMPLATE["Resources"]["Filesystem"]["Properties"]
    assert filesystem["FileSystemTypeVersion"] in ("2.12", "2.15")
    assert filesystem["LustreConfiguration"]["DeploymentType"] != "SCRATCH_1"
    words = botocore.session.get_session().get_service_model("fsx")
    documented = words.operation_model("CreateDataRepositoryAssociation").documentation
    assert "FSx for Lustre 2.12 and 2.15 file systems" in documented


def test_its_outputs_of_the_filesystem_are_attributes_that_cloudformation_returns() -> None:
    returned = {
        name: TEMPLATE["Outputs"][name]["Value"]["Fn::GetAtt"]
        for name in ("FilesystemDnsName", "FilesystemMountName")
    }
    assert returned == {
        "FilesystemDnsName": ["Filesystem", "DNSName"],
        "FilesystemMountName": ["Filesystem", "LustreMountName"],
    }


def test_it_can_be_uploaded_as_it_is_without_any_packaging() -> None:
    assert not re.search(
        r"[&*][a-z]+\b(?!\.)", re.sub(r"#.*|\"[^\"]*\"|Allowed.*|Description.*", "", TEXT)
    ), "YAML anchors need packaging"
    assert "Transform" not in TEMPLATE

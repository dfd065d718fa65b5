"""Which rights a request to FSx needs, by AWS's resources and tags; and EC2's subnets."""

from __future__ import annotations

from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse
from tests.support.filesystem_parts import filesystem
from tests.support.repository import ROOT

from sam_on_moto.iam import policies
from trainyard.aws import fsx_requests
from trainyard_local.fsx import http, subnets
from trainyard_local.fsx.service import Fsx

STACK = "trainyard"
RECORD = filesystem()


def _resolved(value: Any) -> Any:
    """The template's functions, for one account and region."""
    if isinstance(value, list):
        return [_resolved(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "Fn::Sub" in value:
        names = {"Partition": "aws", "Region": "us-east-1", "AccountId": "123456789012"}
        text = str(value["Fn::Sub"])
        for name, given in {**names, "StackName": STACK}.items():
            text = text.replace(f"${{AWS::{name}}}", given)
        return text
    if value == {"Ref": "AWS::StackName"}:
        return STACK
    return {name: _resolved(each) for name, each in value.items()}


@pytest.fixture(scope="module")
def role() -> Any:
    template = yaml_parse((ROOT / "template.yaml").read_text())
    given = template["Resources"]["SweepRole"]["Properties"]["Policies"][0]["PolicyDocument"]
    return _resolved(given)


def refused(fsx: Fsx, role: Any, operation: str, params: dict[str, Any]) -> list[str]:
    return [
        action
        for action, resource, context in http.demands(fsx, operation, params)
        if policies.evaluate([role], action, resource, context) != "allow"
    ]


def test_the_sweep_may_do_what_it_asks_for_and_only_with_its_stacks_tag(
    fsx: Fsx, role: Any
) -> None:
    create = fsx_requests.create(RECORD, STACK)
    assert refused(fsx, role, "CreateFileSystem", create) == []
    other = fsx_requests.create(RECORD, "another")
    assert refused(fsx, role, "CreateFileSystem", other) == [
        "fsx:CreateFileSystem",
        "fsx:TagResource",
    ]
    untagged = {**create, "Tags": []}
    assert refused(fsx, role, "CreateFileSystem", untagged) == ["fsx:CreateFileSystem"]


def test_the_sweep_may_change_and_delete_its_own_filesystems_only(fsx: Fsx, role: Any) -> None:
    for stage, allowed in ((STACK, True), ("another", False)):
        made = fsx.answer("CreateFileSystem", fsx_requests.create(RECORD, stage))["FileSystem"]
        fsx_id = made["FileSystemId"]
        known = RECORD.changed(fsx_id=fsx_id)
        for operation, request in {
            "CreateDataRepositoryAssociation": fsx_requests.link(known, STACK, fsx_id),
            "CreateDataRepositoryTask": fsx_requests.export(known, STACK, 1),
            "DeleteFileSystem": fsx_requests.delete(known, STACK),
            "TagResource": {
                "ResourceARN": made["ResourceARN"],
                "Tags": [{"Key": "trainyard:stage", "Value": STACK}],
            },
        }.items():
            assert (refused(fsx, role, operation, request) == []) is allowed, operation


def test_a_filesystem_that_is_not_there_is_denied_as_on_aws(fsx: Fsx, role: Any) -> None:
    params = {"FileSystemId": "fs-0123456789abcdef0"}
    assert refused(fsx, role, "DeleteFileSystem", params) == ["fsx:DeleteFileSystem"]


def test_subnets_are_where_their_ids_say_and_others_are_left_out() -> None:
    body = (
        b"Action=DescribeSubnets&Filter.1.Name=subnet-id&Filter.1.Value.1=subnet-0123456789abcdef0"
        b"&Filter.1.Value.2=subnet-b0000001&Filter.1.Value.3=subnet-f0000001"
        b"&Filter.1.Value.4=subnet-xyz"
    )
    ids = subnets.wanted(body)
    assert ids is not None
    answer = subnets.document(ids)
    assert answer.count("<item>") == 3
    assert "us-east-1b" in answer
    assert subnets.OTHER_VPC in answer


@pytest.mark.parametrize(
    "body",
    [
        b"Action=DescribeVpcs",
        b"Action=DescribeSubnets",
        b"Action=DescribeSubnets&Filter.1.Name=vpc-id&Filter.1.Value.1=vpc-1",
    ],
)
def test_what_is_asked_otherwise_is_not_done(body: bytes) -> None:
    assert subnets.wanted(body) is None

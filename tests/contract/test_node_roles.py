"""A node's role lets its agent do its work, in its own cluster and within the boundary only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import boto3
import cfnlint
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from samtranslator.yaml_helper import yaml_parse
from tests.support.repository import ROOT
from tests.support.spec_parts import ON_FSX

from sam_on_moto.iam import policies
from sam_on_moto.template.intrinsics import Scope, resolve
from trainyard.aws.roles import IamRoles
from trainyard.backends.hyperpod.naming import HyperPodSettings, role_arn
from trainyard.backends.hyperpod.request import create_cluster_request
from trainyard.backends.hyperpod.role import node_role
from trainyard.domain import names
from trainyard.domain.errors import TrainyardError
from trainyard.domain.records import Cluster
from trainyard_contracts.cluster_specs import read_cluster_spec

ACCOUNT, REGION = "123456789012", "us-west-2"
BUCKET = f"sagemaker-yard-{ACCOUNT}-{REGION}"
DATA = f"arn:aws:s3:::{BUCKET}"
BUS = f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/yard-agents"
AUTHORIZATION = json.loads(
    (Path(cfnlint.__file__).parent / "data/AdditionalSpecs/Policies.json").read_text()
)
SETTINGS = HyperPodSettings(
    stage="yard", region=REGION, bucket=BUCKET, event_bus="yard-agents",
    secret_prefix="trainyard/yard",
    node_boundary_arn=f"arn:aws:iam::{ACCOUNT}:policy/yard-boundary", heartbeat_seconds=60,
)  # fmt: skip
#: AWS's own policy for nodes has a star here, with the condition on the namespace that ours has.
STARRED = {"cloudwatch:PutMetricData"}
AGENT = {"events:source": "trainyard.agent"}


def cluster(name: str, generation: int = 1, **spec: Any) -> Cluster:
    groups = [
        {"name": "head", "role": "controller", "instanceType": "ml.m5.xlarge", "count": 1},
        {"name": "workers", "role": "worker", "instanceType": "ml.m5.xlarge", "count": 2},
    ]
    at = datetime(2026, 11, 20, tzinfo=timezone.utc)
    made = read_cluster_spec({"name": name, "instanceGroups": groups, **ON_FSX, **spec})
    return Cluster(name=name, spec=made, created_at=at, updated_at=at, generation=generation)


RICH = cluster(
    "a",
    network={
        "subnetIds": ["subnet-0123456789abcdef1"],
        "securityGroupIds": ["sg-0123456789abcdef1"],
    },
    jobSecrets=["trainyard-jobs/hugging-face"],
    jobInputs=["s3://sagemaker-corpus/v1/", "s3://sagemaker-all"],
    s3Mounts=[{"bucket": "sagemaker-texts", "mountPath": "/data", "prefix": "tokens/v1"}],
)


def boundary() -> dict[str, Any]:
    resource = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]["NodeBoundary"]
    scope = Scope(
        parameters={
            "MountableBuckets": "sagemaker-*",
            "JobSecrets": "trainyard-jobs/*",
            "JobImages": "*",
        },
        pseudo={
            "AWS::StackName": "yard",
            "AWS::Region": REGION,
            "AWS::AccountId": ACCOUNT,
            "AWS::Partition": "aws",
        },
        conditions={},
        mappings={},
    )
    text = json.dumps(resource["Properties"]["PolicyDocument"])
    text = text.replace('{"Fn::GetAtt": ["Bus", "Arn"]}', f'"{BUS}"').replace(
        '{"Fn::GetAtt": ["DataBucket", "Arn"]}', f'"{DATA}"'
    )
    found: dict[str, Any] = resolve(json.loads(text.replace("${DataBucket.Arn}", DATA)), scope)
    return found


def may(of: Cluster, action: str, resource: str, context: dict[str, str] | None = None) -> bool:
    return (
        policies.evaluate([node_role(of, SETTINGS).policy], action, resource, context or {})
        == "allow"
    )


def secret(name: str) -> str:
    return (
        f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:trainyard/yard/{name}/agent-key-AbCdEf"
    )


@pytest.mark.parametrize("name", ["b", "a-b", "aa"])
def test_a_node_reaches_nothing_of_another_cluster(name: str) -> None:
    theirs = f"{DATA}/clusters/{name}"
    assert not may(RICH, "secretsmanager:GetSecretValue", secret(name))
    for key in (
        "1/lifecycle/cluster.json",
        "runs/r/attempts/1/bundle.json",
        "runs/r/logs/attempt-1.log",
        "runs/r/export/export-manifest.json",
    ):
        assert not may(RICH, "s3:GetObject", f"{theirs}/{key}")
        assert not may(RICH, "s3:PutObject", f"{theirs}/{key}")
    assert not may(RICH, "s3:GetObject", f"{DATA}/runs/r/export/export-manifest.json")
    assert not may(RICH, "s3:GetObject", "arn:aws:s3:::sagemaker-somebody/x")


def test_a_node_reads_the_secrets_that_its_clusters_spec_gives_and_no_others() -> None:
    secrets = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:trainyard-jobs"
    given = f"{secrets}/hugging-face-AbCdEf"
    assert may(RICH, "secretsmanager:GetSecretValue", given)
    assert not may(RICH, "secretsmanager:GetSecretValue", f"{secrets}/other-AbCdEf")
    assert not may(RICH, "secretsmanager:GetSecretValue", f"{secrets}/hugging-face-2-AbCdEf")
    assert not may(RICH, "secretsmanager:PutSecretValue", given)
    assert not may(cluster("b"), "secretsmanager:GetSecretValue", given)


def test_a_node_pulls_images_of_its_account_and_of_aws_and_pushes_none() -> None:
    for account in (ACCOUNT, "763104351884"):
        repository = f"arn:aws:ecr:eu-west-1:{account}:repository/train"
        assert may(RICH, "ecr:BatchGetImage", repository)
        assert may(RICH, "ecr:GetDownloadUrlForLayer", repository)
        assert not may(RICH, "ecr:PutImage", repository)
    other = "arn:aws:ecr:eu-west-1:210987654321:repository/train"
    assert not may(RICH, "ecr:BatchGetImage", other)


def test_a_node_reads_the_inputs_that_its_clusters_spec_names_and_no_others() -> None:
    corpus = "arn:aws:s3:::sagemaker-corpus"
    assert may(RICH, "s3:GetObject", f"{corpus}/v1/a/b.bin")
    assert may(RICH, "s3:ListBucket", corpus)
    assert may(RICH, "s3:GetObject", "arn:aws:s3:::sagemaker-all/any/thing")
    assert not may(RICH, "s3:GetObject", f"{corpus}/v10/b.bin")
    assert not may(RICH, "s3:PutObject", f"{corpus}/v1/a/b.bin")
    assert not may(cluster("b"), "s3:GetObject", f"{corpus}/v1/a/b.bin")


@pytest.mark.parametrize("action", ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"])
def test_a_node_keeps_what_its_clusters_runs_sync_and_nobody_elses(action: str) -> None:
    assert may(RICH, action, f"{DATA}/sync/a/r/latest.json")
    for name in ("b", "a-b", "aa"):
        assert not may(RICH, action, f"{DATA}/sync/{name}/r/latest.json")
    assert not may(RICH, action, f"{DATA}/sync/latest.json")


def test_a_node_reads_what_it_runs_and_writes_logs_and_exports_only() -> None:
    ours = f"{DATA}/clusters/a"
    assert may(RICH, "secretsmanager:GetSecretValue", secret("a"))
    assert may(RICH, "s3:GetObject", f"{ours}/1/lifecycle/on_create.sh")
    assert may(RICH, "s3:GetObject", f"{ours}/runs/r/attempts/1/bundle.json")
    assert may(RICH, "s3:PutObject", f"{ours}/runs/r/logs/attempt-1.log")
    assert may(RICH, "s3:PutObject", f"{ours}/runs/r/export/final/model.pt")
    assert may(RICH, "s3:PutObject", f"{ours}/runs/r/fetched/0000")
    assert may(RICH, "events:PutEvents", BUS, AGENT)
    assert may(RICH, "s3:GetObject", "arn:aws:s3:::sagemaker-texts/tokens/v1/0.bin")
    for key in (
        "1/lifecycle/on_create.sh",
        "2/lifecycle/on_create.sh",
        "runs/r/attempts/2/bundle.json",
        "runs/r/code/0000",
    ):
        assert not may(RICH, "s3:PutObject", f"{ours}/{key}"), (
            "code for a node comes from the control plane alone"
        )
    for key in ("logs/attempt-1.log", "export/final/model.pt"):
        assert not may(RICH, "s3:DeleteObject", f"{ours}/runs/r/{key}")
    assert not may(RICH, "events:PutEvents", BUS, {"events:source": "aws.sagemaker"})
    assert not may(RICH, "s3:GetObject", "arn:aws:s3:::sagemaker-texts/other")


def test_a_node_deletes_interfaces_in_its_own_subnets_only() -> None:
    interface = f"arn:aws:ec2:{REGION}:{ACCOUNT}:network-interface/eni-1"
    subnet = f"arn:aws:ec2:{REGION}:{ACCOUNT}:subnet/subnet-0123456789abcdef"
    assert may(RICH, "ec2:DeleteNetworkInterface", interface, {"ec2:subnet": f"{subnet}1"})
    assert not may(RICH, "ec2:DeleteNetworkInterface", interface, {"ec2:subnet": f"{subnet}2"})
    assert not may(
        cluster("a"), "ec2:DeleteNetworkInterface", interface, {"ec2:subnet": f"{subnet}1"}
    ), "it has no network of its own"


def _examples(resource: str) -> str:
    return resource.replace("??????", "AbCdEf").replace("*", "x")


def _allowed(of: Cluster) -> Iterator[tuple[str, str, dict[str, str]]]:
    for statement in node_role(of, SETTINGS).policy["Statement"]:
        conditions = list(statement.get("Condition", {}).values())
        context = {
            key.lower(): value if isinstance(value, str) else value[0]
            for pairs in conditions
            for key, value in pairs.items()
        }
        resources = (
            statement["Resource"]
            if isinstance(statement["Resource"], list)
            else [statement["Resource"]]
        )
        yield from (
            (action, _examples(resource), context)
            for action in statement["Action"]
            for resource in resources
        )


@pytest.mark.parametrize("of", [RICH, cluster("b")], ids=["rich", "plain"])
def test_all_that_a_role_allows_lies_within_the_boundary(of: Cluster) -> None:
    for action, resource, context in _allowed(of):
        assert policies.evaluate([boundary()], action, resource, context) == "allow", (
            action,
            resource,
        )


def test_every_action_exists_and_a_star_stands_only_where_nothing_can_be_named() -> None:
    documents = [node_role(RICH, SETTINGS).policy, boundary()]
    for statement in [statement for document in documents for statement in document["Statement"]]:
        for action in (
            statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        ):
            service, name = action.split(":")
            known = {key.lower(): value for key, value in AUTHORIZATION[service]["Actions"].items()}
            assert name.lower() in known, action
            assert (
                statement["Resource"] != "*"
                or action in STARRED
                or not known[name.lower()].get("Resources")
            ), action


def test_policy_and_boundary_keep_iams_limits() -> None:
    assert len(json.dumps(node_role(RICH, SETTINGS).policy)) < 10_240
    assert len(json.dumps(boundary(), separators=(",", ":"))) < 6_144
    long = names.node_role("a" * 25, "b" * 63, 1000)
    assert len(long) <= 64
    assert long != names.node_role("a" * 25, "b" * 62 + "c", 1000)
    assert names.cluster_of_role(names.node_role_path("yard", "b-c", 12)) == ("b-c", 12)


def test_each_generation_has_a_role_of_its_own_that_its_request_names() -> None:
    first, second = cluster("a", 1), cluster("a", 2)
    assert role_arn(first, SETTINGS) != role_arn(second, SETTINGS)
    asked = {
        group["ExecutionRole"]
        for group in create_cluster_request(second, SETTINGS)["InstanceGroups"]
    }
    assert asked == {role_arn(second, SETTINGS)}
    assert not may(second, "s3:GetObject", f"{DATA}/clusters/a/1/lifecycle/cluster.json")


@pytest.fixture
def iam() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client(
            "iam", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
        )


def test_a_role_is_made_once_found_by_its_path_and_deleted_once(iam: Any) -> None:
    roles, wanted = IamRoles(iam), node_role(RICH, SETTINGS)
    boundary_arn = iam.create_policy(PolicyName="boundary", PolicyDocument=json.dumps(boundary()))[
        "Policy"
    ]["Arn"]
    wanted = replace(wanted, boundary=boundary_arn)
    roles.ensure(wanted)
    roles.ensure(wanted)
    made = iam.get_role(RoleName=wanted.name)["Role"]
    assert made["Arn"] == role_arn(RICH, SETTINGS)
    assert made["PermissionsBoundary"]["PermissionsBoundaryArn"] == boundary_arn
    assert (
        iam.get_role_policy(RoleName=wanted.name, PolicyName="node")["PolicyDocument"]
        == wanted.policy
    )
    assert [
        (role.name, names.cluster_of_role(role.path)) for role in roles.below("/trainyard/yard/")
    ] == [(wanted.name, ("a", 1))]
    assert roles.below("/trainyard/other/") == []
    roles.delete(wanted.name, wanted.path)
    roles.delete(wanted.name, wanted.path)
    assert roles.below("/trainyard/yard/") == []


def test_a_role_that_lost_its_policy_halfway_is_deleted_all_the_same(iam: Any) -> None:
    roles, wanted = IamRoles(iam), replace(node_role(cluster("b"), SETTINGS), boundary="")
    iam.create_role(
        RoleName=wanted.name, Path=wanted.path, AssumeRolePolicyDocument=json.dumps(wanted.trust)
    )
    roles.delete(wanted.name, wanted.path)
    assert roles.below("/trainyard/yard/") == []


class Denying:
    """IAM, which refuses whatever changes a role."""

    def __init__(self, iam: Any) -> None:
        self._iam = iam

    def list_roles(self, **request: Any) -> Any:
        return self._iam.list_roles(**request)

    def delete_role_policy(self, **_: Any) -> None:
        error = {
            "Code": "AccessDenied",
            "Message": "not authorized to perform: iam:DeleteRolePolicy on resource: role b",
        }
        raise ClientError({"Error": error}, "DeleteRolePolicy")  # type: ignore[arg-type]


def test_a_role_that_is_not_there_is_deleted_though_iam_refuses_to_say_so(iam: Any) -> None:
    wanted = replace(node_role(cluster("b"), SETTINGS), boundary="")
    IamRoles(Denying(iam)).delete(wanted.name, wanted.path)
    iam.create_role(
        RoleName=wanted.name, Path=wanted.path, AssumeRolePolicyDocument=json.dumps(wanted.trust)
    )
    with pytest.raises(TrainyardError, match="which is there: not authorized"):
        IamRoles(Denying(iam)).delete(wanted.name, wanted.path)

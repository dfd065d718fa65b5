"""A node's credentials give a job all that its own cluster needs, and nothing of another one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.support.new_roles import made_cluster
from tests.support.system import System, eventually, light_job

from trainyard_agent.host.identifiers import ulid
from trainyard_contracts import signatures


class Node:
    """AWS as a process on the cluster's controller reaches it."""

    def __init__(self, system: System, cluster: str) -> None:
        self.system, self.cluster = system, system.api.cluster(cluster)
        short = self.cluster["arn"].rsplit("/", 1)[-1]
        self.keys = next(
            p.environment
            for p in system.processes(TRAINYARD_CLUSTER=short)
            if p.environment.get("AWS_SESSION_TOKEN")
        )

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.system.local["endpoint"],
            region_name=self.system.local["region"],
            aws_access_key_id=self.keys["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.keys["AWS_SECRET_ACCESS_KEY"],
            aws_session_token=self.keys["AWS_SESSION_TOKEN"],
            config=Config(retries={"max_attempts": 0}),
        )

    def refused(self, service: str, operation: str, **request: Any) -> None:
        with pytest.raises(ClientError) as denied:
            getattr(self.client(service), operation)(**request)
        assert denied.value.response["Error"]["Code"].startswith("AccessDenied"), denied.value

    def tells(self, kind: str, key: bytes | None, **detail: Any) -> None:
        """Put an event on the bus, signed with this key or not at all."""
        body = json.dumps(
            {
                "id": ulid(),
                "at": datetime.now(timezone.utc).isoformat(),
                "node": "ip-127-0-0-9",
                **detail,
            }
        )
        entry = {
            "Source": "trainyard.agent",
            "DetailType": kind,
            "Detail": signatures.signed(kind, body, key) if key else body,
            "EventBusName": self.system.local["outputs"]["EventBusName"],
        }
        assert self.client("events").put_events(Entries=[entry])["FailedEntryCount"] == 0


def secret(cluster: str) -> str:
    return f"trainyard/trainyard/{cluster}/agent-key"


@pytest.fixture(scope="module")
def neighbour(system: System) -> Iterator[str]:
    """What another cluster has in AWS, without its nodes."""
    name, bucket = "neighbour", system.local["bucket"]
    secrets, s3 = system.aws("secretsmanager"), system.aws("s3")
    secrets.create_secret(Name=secret(name), SecretString="k" * 64)
    keys = [
        f"clusters/{name}/1/lifecycle/on_create.sh",
        f"clusters/{name}/runs/run-x/attempts/1/bundle.json",
    ]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"theirs")
    yield name
    secrets.delete_secret(SecretId=secret(name), ForceDeleteWithoutRecovery=True)
    for key in keys:
        s3.delete_object(Bucket=bucket, Key=key)


def test_a_nodes_credentials_reach_its_own_cluster(system: System, shared: str) -> None:
    node, bucket = Node(system, shared), system.local["bucket"]
    found = node.client("secretsmanager").get_secret_value(SecretId=secret(shared))
    assert len(found["SecretString"]) == 64
    script = f"clusters/{shared}/1/lifecycle/on_create.sh"
    assert node.client("s3").get_object(Bucket=bucket, Key=script)["Body"].read()


def test_a_nodes_credentials_reach_no_other_clusters_secret_and_objects(
    system: System, shared: str, neighbour: str
) -> None:
    node, bucket = Node(system, shared), system.local["bucket"]
    node.refused("secretsmanager", "get_secret_value", SecretId=secret(neighbour))
    for key in (
        f"clusters/{neighbour}/1/lifecycle/on_create.sh",
        f"clusters/{neighbour}/runs/run-x/attempts/1/bundle.json",
    ):
        node.refused("s3", "get_object", Bucket=bucket, Key=key)
        node.refused("s3", "put_object", Bucket=bucket, Key=key, Body=b"code")
    manifest = f"clusters/{neighbour}/runs/run-x/export/export-manifest.json"
    node.refused("s3", "put_object", Bucket=bucket, Key=manifest, Body=b"{}")


def test_a_nodes_credentials_change_no_script_delete_nothing_and_reach_no_other_service(
    system: System, shared: str
) -> None:
    node, bucket = Node(system, shared), system.local["bucket"]
    script = f"clusters/{shared}/1/lifecycle/on_create.sh"
    node.refused("s3", "put_object", Bucket=bucket, Key=script, Body=b"code")
    manifest = "runs/run-x/export/export-manifest.json"
    node.refused("s3", "put_object", Bucket=bucket, Key=manifest, Body=b"{}")
    log = f"clusters/{shared}/runs/run-x/logs/attempt-1.log"
    node.refused("s3", "delete_object", Bucket=bucket, Key=log)
    item = {"pk": {"S": "x"}, "sk": {"S": "y"}}
    node.refused("dynamodb", "get_item", TableName=system.local["table"], Key=item)
    node.refused("sagemaker", "delete_cluster", ClusterName=shared)
    node.refused("ssm", "start_session", Target="sagemaker-cluster:x_y-i-1")
    policy = '{"Version": "2012-10-17", "Statement": []}'
    node.refused("iam", "put_role_policy", RoleName="x", PolicyName="y", PolicyDocument=policy)


def test_an_end_that_another_cluster_tells_of_a_run_ends_nothing(
    system: System, shared: str, neighbour: str
) -> None:
    """The forger has a node's credentials and a cluster's key, but not of the run's cluster."""
    node = Node(system, shared)
    run_id = system.submit("forged", light_job(steps=10, hold_at=5), shared)
    run = system.training(run_id)
    told = {
        "clusterName": shared,
        "clusterArn": node.cluster["arn"],
        "runId": run_id,
        "attempt": 1,
        "jobId": run["attempts"][0]["jobId"],
    }
    node.tells("AttemptEnded", None, **told, outcome="failed")
    node.tells("AttemptEnded", b"k" * 64, **told, outcome="failed")
    for reason in ("it is not signed", "its signature is not the cluster's"):
        eventually(reason, lambda reason=reason: system.said("on-fact", "dropped", reason, run_id))
    assert system.api.run(run_id)["attempts"][0]["outcome"] is None
    system.release(run_id)
    system.ended(run_id, "Succeeded")


def foreign_role(iam: Any, name: str) -> str:
    """The ARN of a role for nodes, made for the foreign cluster."""
    trust = {
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "sagemaker.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
        ]
    }
    document = json.dumps({"Version": "2012-10-17", **trust})
    return str(iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"])


@pytest.fixture
def foreign(system: System) -> Iterator[str]:
    """Somebody else's cluster in our account, without nodes: its lifecycle bucket is not there."""
    name, sagemaker, iam = "foreign", system.aws("sagemaker"), system.aws("iam")
    group = {
        "InstanceGroupName": "workers", "InstanceType": "ml.c5.large", "InstanceCount": 1,
        "ExecutionRole": foreign_role(iam, name),
        "LifeCycleConfig": {
            "SourceS3Uri": "s3://sagemaker-not-there/scripts", "OnCreate": "on_create.sh",
        },
    }  # fmt: skip
    tags = [{"Key": "trainyard:stage", "Value": "another"}]
    made_cluster(sagemaker, ClusterName=name, InstanceGroups=[group], Tags=tags)
    yield name
    eventually(
        "it can be deleted",
        lambda: (
            sagemaker.describe_cluster(ClusterName=name)["ClusterStatus"] in ("Failed", "InService")
        ),
    )
    sagemaker.delete_cluster(ClusterName=name)
    iam.delete_role(RoleName=name)


@pytest.mark.parametrize("role", ["ApiRole", "StepsRole", "SweepRole"])
def test_no_function_can_end_or_repair_a_cluster_of_somebody_else(
    system: System, foreign: str, role: str
) -> None:
    (arn,) = [
        found["Arn"]
        for found in system.aws("iam").list_roles()["Roles"]
        if role in found["RoleName"]
    ]
    keys = system.aws("sts").assume_role(RoleArn=arn, RoleSessionName="test")["Credentials"]
    client = boto3.client(
        "sagemaker",
        endpoint_url=system.local["endpoint"],
        region_name=system.local["region"],
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
    )
    assert client.describe_cluster(ClusterName=foreign)["ClusterName"] == foreign
    calls = [
        lambda: client.delete_cluster(ClusterName=foreign),
        lambda: client.batch_replace_cluster_nodes(
            ClusterName=foreign, NodeIds=["i-0123456789abcdef0"]
        ),
        lambda: client.batch_reboot_cluster_nodes(
            ClusterName=foreign, NodeIds=["i-0123456789abcdef0"]
        ),
    ]
    for call in calls:
        with pytest.raises(ClientError, match="AccessDenied"):
            call()

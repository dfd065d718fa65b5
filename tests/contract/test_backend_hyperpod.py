"""The HyperPod backend against SageMaker's own model, which checks each request and answer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from tests.support.spec_parts import ON_FSX

from trainyard.aws.session_channel import SessionChannel
from trainyard.backends.hyperpod.backend import HyperPod
from trainyard.backends.hyperpod.naming import HyperPodSettings
from trainyard.backends.hyperpod.refusals import Denied
from trainyard.backends.hyperpod.request import create_cluster_request
from trainyard.backends.lifecycle_bundle import BundleIncomplete, BundleSources
from trainyard.domain import errors
from trainyard.domain.cluster_facts import ClusterState
from trainyard.domain.records import Cluster
from trainyard.domain.states import BackendStatus
from trainyard.outside.roles import FoundRole, NodeRole
from trainyard.outside.seen_clusters import Remains
from trainyard.outside.seen_events import BackendEvent
from trainyard_contracts.cluster_specs import read_cluster_spec

T0 = datetime(2026, 11, 20, tzinfo=timezone.utc)
ARN = "arn:aws:sagemaker:us-east-1:111122223333:cluster/abcdefghijkl"
SETTINGS = HyperPodSettings(
    stage="prod", region="us-east-1", bucket="sagemaker-data", event_bus="bus",
    secret_prefix="trainyard/prod",
    node_boundary_arn="arn:aws:iam::111122223333:policy/prod-boundary", heartbeat_seconds=60,
)  # fmt: skip
CLUSTER = Cluster(
    name="demo", created_at=T0, updated_at=T0, arn=ARN,
    spec=read_cluster_spec({
        "name": "demo",
        **ON_FSX,
        "instanceGroups": [
            {"name": "head", "role": "controller", "instanceType": "ml.m5.xlarge", "count": 1},
            {"name": "head-room", "role": "worker", "instanceType": "ml.m5.xlarge", "count": 2,
             "spares": 1},
        ],
    }),
)  # fmt: skip
OURS = [
    {"Key": "trainyard:stage", "Value": "prod"},
    {"Key": "trainyard:cluster", "Value": "demo"},
    {"Key": "trainyard:record", "Value": CLUSTER.mark},
]


class MemoryBlobs:
    """The data bucket as a dictionary."""

    bucket = "sagemaker-data"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put(self, key: str, body: bytes) -> None:
        self.objects[key] = body

    def get(self, key: str) -> bytes:
        return self.objects[key]

    def head(self, key: str) -> tuple[int, str | None] | None:
        return (len(self.objects[key]), None) if key in self.objects else None


class MemoryRoles:
    """IAM's roles as a dictionary."""

    def __init__(self) -> None:
        self.made: dict[str, NodeRole] = {}

    def ensure(self, role: NodeRole) -> None:
        self.made[role.name] = role

    def delete(self, name: str, path: str) -> None:
        assert self.made.get(name) is None or self.made[name].path == path
        self.made.pop(name, None)

    def below(self, path: str) -> list[FoundRole]:
        return [
            FoundRole(role.name, role.path, T0)
            for role in self.made.values()
            if role.path.startswith(path)
        ]


class Fixture:
    def __init__(self, sources: BundleSources) -> None:
        client = {
            "region_name": "us-east-1",
            "aws_access_key_id": "x",
            "aws_secret_access_key": "x",
        }
        sagemaker, logs = boto3.client("sagemaker", **client), boto3.client("logs", **client)
        self.sagemaker, self.logs, self.blobs = Stubber(sagemaker), Stubber(logs), MemoryBlobs()
        self.roles = MemoryRoles()
        self.backend = HyperPod(
            sagemaker, logs, self.blobs, self.roles, SessionChannel(None), SETTINGS, sources
        )

    def describes(self, status: str = "InService", **more: Any) -> None:
        answer = {
            "ClusterArn": ARN,
            "ClusterName": "demo",
            "ClusterStatus": status,
            "InstanceGroups": [],
            **more,
        }
        self.sagemaker.add_response("describe_cluster", answer, {"ClusterName": "demo"})

    def finds_none(self) -> None:
        self.refuses("describe_cluster", "ResourceNotFound")

    def tags(self, tags: list[dict[str, str]]) -> None:
        self.sagemaker.add_response(
            "list_tags", {"Tags": tags}, {"ResourceArn": ARN, "MaxResults": 100}
        )

    def refuses(self, method: str, code: str, message: str = "AWS says why") -> None:
        self.sagemaker.add_client_error(method, code, message)


@pytest.fixture
def sources(tmp_path: Path) -> BundleSources:
    for path in (
        "lifecycle/on_create.sh",
        "agent/__init__.py",
        "agent/__pycache__/x.pyc",
        "contracts/specs.py",
        "trainers/ddp/__main__.py",
        "job/signals.py",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"# {path}\n")
    return BundleSources(
        *(tmp_path / name for name in ("lifecycle", "agent", "contracts", "trainers", "job"))
    )


@pytest.fixture
def fixture(sources: BundleSources) -> Iterator[Fixture]:
    made = Fixture(sources)
    with made.sagemaker, made.logs:
        yield made
        made.sagemaker.assert_no_pending_responses()
        made.logs.assert_no_pending_responses()


def summary(
    group: str, instance_id: str, host: str | None = None, status: str = "Running"
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "InstanceGroupName": group, "InstanceId": instance_id, "InstanceType": "ml.m5.xlarge",
        "LaunchTime": T0, "InstanceStatus": {"Status": status, "Message": ""},
    }  # fmt: skip
    return made | ({"PrivateDnsHostname": host} if host else {})


# create


def test_creating_uploads_the_bundle_and_sends_the_request(fixture: Fixture) -> None:
    fixture.finds_none()
    fixture.sagemaker.add_response(
        "create_cluster", {"ClusterArn": ARN}, create_cluster_request(CLUSTER, SETTINGS)
    )
    assert fixture.backend.create(CLUSTER) == ARN
    prefix = "clusters/demo/1/lifecycle"
    assert set(fixture.blobs.objects) == {
        f"{prefix}/on_create.sh", f"{prefix}/cluster.json",
        f"{prefix}/lib/trainyard_agent/__init__.py", f"{prefix}/lib/trainyard_contracts/specs.py",
        f"{prefix}/lib/trainyard_trainers/ddp/__main__.py",
        f"{prefix}/lib/trainyard_job/signals.py",
    }  # fmt: skip


def test_a_plan_names_every_file_and_the_exact_request_and_sends_nothing(fixture: Fixture) -> None:
    plan = fixture.backend.plan(CLUSTER)
    assert plan.request == create_cluster_request(CLUSTER, SETTINGS)
    assert plan.operation == "CreateCluster"
    assert plan.files["clusters/demo/1/lifecycle/on_create.sh"] == len("# lifecycle/on_create.sh\n")
    assert fixture.blobs.objects == {}


def test_a_name_that_is_taken_in_the_very_moment_of_asking_is_looked_at(fixture: Fixture) -> None:
    fixture.finds_none()
    fixture.refuses("create_cluster", "ResourceInUse")
    fixture.describes("Creating")
    fixture.tags(OURS)
    assert fixture.backend.create(CLUSTER) == ARN


def test_creating_again_finds_the_cluster_of_the_first_try(fixture: Fixture) -> None:
    fixture.describes("Creating")
    fixture.tags(OURS)
    assert fixture.backend.create(CLUSTER) == ARN


@pytest.mark.parametrize(
    "tags",
    [
        [],
        [
            {"Key": "trainyard:stage", "Value": "other"},
            {"Key": "trainyard:cluster", "Value": "demo"},
        ],
    ],
)
def test_a_cluster_of_someone_else_is_never_taken_for_ours(
    fixture: Fixture, tags: list[dict[str, str]]
) -> None:
    fixture.describes()
    fixture.tags(tags)
    with pytest.raises(errors.ClusterNameTaken, match="did not create"):
        fixture.backend.create(CLUSTER)


@pytest.mark.parametrize(
    "mark", [[], [{"Key": "trainyard:record", "Value": "7/2026-01-01T00:00:00+00:00"}]]
)
def test_a_cluster_of_ours_that_was_made_for_another_record_is_not_taken_over(
    fixture: Fixture, mark: list[dict[str, str]]
) -> None:
    fixture.describes()
    fixture.tags([*OURS[:2], *mark])
    with pytest.raises(errors.ClusterNameTaken, match="another record") as caught:
        fixture.backend.create(CLUSTER)
    assert "restore the table" in caught.value.detail
    assert (fixture.roles.made, fixture.blobs.objects) == ({}, {}), (
        "what lies under its name is that cluster's"
    )


def test_a_predecessor_that_is_still_being_deleted_is_waited_for(fixture: Fixture) -> None:
    fixture.describes("Deleting")
    fixture.tags(OURS)
    with pytest.raises(errors.ConflictError, match="still being deleted"):
        fixture.backend.create(CLUSTER)


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        ("ValidationException", "Invalid subnet", errors.BackendRejected),
        (
            "ResourceLimitExceeded",
            "The account-level service limit 'ml.p5.48xlarge for cluster usage' is 0",
            errors.BackendRejected,
        ),
        (
            "ValidationException",
            "We currently do not have sufficient capacity: Insufficient capacity",
            errors.NoCapacity,
        ),
        ("ThrottlingException", "Rate exceeded", errors.Throttled),
        ("AccessDeniedException", "is not authorized to perform: iam:PassRole", Denied),
    ],
)
def test_a_refusal_keeps_awss_reason(
    fixture: Fixture, code: str, message: str, expected: type[errors.TrainyardError]
) -> None:
    fixture.finds_none()
    fixture.refuses("create_cluster", code, message)
    with pytest.raises(expected) as caught:
        fixture.backend.create(CLUSTER)
    assert type(caught.value) is expected
    assert message in caught.value.detail
    assert caught.value.next_step


@pytest.mark.parametrize(
    "message",
    [
        "NodeProvisioningMode Continuous is only supported for EKS orchestrated clusters",
        "Orchestrator configuration must not be empty",
    ],
)
def test_a_region_without_continuous_provisioning_for_slurm_is_told_with_the_way_round_it(
    fixture: Fixture, message: str
) -> None:
    fixture.finds_none()
    fixture.refuses("create_cluster", "ValidationException", message)
    with pytest.raises(errors.BackendRejected) as caught:
        fixture.backend.create(CLUSTER)
    assert "'AllAtOnce'" in caught.value.next_step


def test_a_function_without_the_node_layers_says_so(tmp_path: Path) -> None:
    sources = BundleSources(*[tmp_path] * 5)
    with pytest.raises(BundleIncomplete, match="layers"):
        Fixture(sources).backend.plan(CLUSTER)


# look


def test_a_described_cluster_carries_awss_words(fixture: Fixture) -> None:
    fixture.describes(
        "Failed", FailureMessage="Lifecycle scripts did not run successfully", CreationTime=T0
    )
    known = fixture.backend.describe("demo")
    assert known is not None
    assert (known.arn, known.status, known.said, known.failure_message) == (
        ARN,
        BackendStatus.FAILED,
        "Failed",
        "Lifecycle scripts did not run successfully",
    )


def test_an_unknown_cluster_is_none(fixture: Fixture) -> None:
    fixture.refuses("describe_cluster", "ResourceNotFound")
    assert fixture.backend.describe("demo") is None


def test_nodes_are_listed_over_pages_with_their_slurm_names(fixture: Fixture) -> None:
    first = [summary("head", "i-0000000000000000a", "ip-10-0-0-1.ec2.internal")]
    rest = [summary("head-room", "i-0000000000000000b", status="Pending")]
    fixture.sagemaker.add_response(
        "list_cluster_nodes",
        {"ClusterNodeSummaries": first, "NextToken": "more"},
        {"ClusterName": "demo", "MaxResults": 100},
    )
    fixture.sagemaker.add_response(
        "list_cluster_nodes",
        {"ClusterNodeSummaries": rest},
        {"ClusterName": "demo", "MaxResults": 100, "NextToken": "more"},
    )
    fixture.sagemaker.add_response(
        "describe_cluster_node",
        {"NodeDetails": {"InstanceId": "i-0000000000000000b", "PrivatePrimaryIp": "10.0.0.7"}},
        {"ClusterName": "demo", "NodeId": "i-0000000000000000b"},
    )
    nodes = fixture.backend.nodes(CLUSTER)
    assert [(node.role, node.name, node.address, node.status) for node in nodes] == [
        ("controller", "ip-10-0-0-1", "10.0.0.1", "Running"),
        ("worker", "ip-10-0-0-7", "10.0.0.7", "Pending"),
    ]


def test_a_node_without_an_address_yet_has_no_name(fixture: Fixture) -> None:
    page = {"ClusterNodeSummaries": [summary("head-room", "i-0000000000000000b", status="Pending")]}
    fixture.sagemaker.add_response("list_cluster_nodes", page)
    fixture.sagemaker.add_response(
        "describe_cluster_node", {"NodeDetails": {"InstanceId": "i-0000000000000000b"}}
    )
    assert [node.name for node in fixture.backend.nodes(CLUSTER)] == [None]


@pytest.mark.parametrize("code", ["ValidationException", "ResourceNotFound"])
def test_a_node_that_left_between_two_calls_does_not_fail_the_list(
    fixture: Fixture, code: str
) -> None:
    here = summary("head", "i-0000000000000000a", "ip-10-0-0-1.ec2.internal")
    left = summary("head-room", "i-0000000000000000b", status="ShuttingDown")
    fixture.sagemaker.add_response("list_cluster_nodes", {"ClusterNodeSummaries": [here, left]})
    fixture.sagemaker.add_client_error("describe_cluster_node", code, "no such node")
    assert [(node.status, node.name) for node in fixture.backend.nodes(CLUSTER)] == [
        ("Running", "ip-10-0-0-1"),
        ("ShuttingDown", None),
    ]


EVENT_ID = "0a1b2c3d-0000-4000-8000-000000000001"


def test_the_reason_of_an_event_stands_in_the_metadata_of_whatever_it_is_about(
    fixture: Fixture,
) -> None:
    reason = (
        "We currently do not have sufficient capacity to launch new ml.p5.48xlarge instances. "
        "Please try again."
    )
    event = {
        "EventId": EVENT_ID, "ClusterArn": ARN, "ClusterName": "demo", "ResourceType": "Instance",
        "EventTime": T0,
        "EventDetails": {"EventMetadata": {"Instance": {"FailureMessage": reason}}},
    }  # fmt: skip
    asked = {"ClusterName": "demo", "EventId": EVENT_ID}
    fixture.sagemaker.add_response("describe_cluster_event", {"EventDetails": event}, asked)
    assert fixture.backend.event_reason("demo", EVENT_ID) == reason
    fixture.sagemaker.add_response(
        "describe_cluster_event", {"EventDetails": {**event, "EventDetails": {}}}, asked
    )
    assert fixture.backend.event_reason("demo", EVENT_ID) == ""


@pytest.mark.parametrize(
    "code", ["ValidationException", "ResourceNotFound", "AccessDeniedException"]
)
def test_an_event_that_cannot_be_described_has_no_reason(fixture: Fixture, code: str) -> None:
    fixture.sagemaker.add_client_error(
        "describe_cluster_event", code, "only for continuous provisioning"
    )
    assert fixture.backend.event_reason("demo", EVENT_ID) == ""


def test_the_controller_is_found_with_one_call_and_not_confused_with_a_similar_group(
    fixture: Fixture,
) -> None:
    page = [
        summary("head-room", "i-0000000000000000b"),
        summary("head", "i-0000000000000000a", status="ShuttingDown"),
        summary("head", "i-0000000000000000c"),
    ]
    fixture.sagemaker.add_response(
        "list_cluster_nodes", {"ClusterNodeSummaries": page},
        {"ClusterName": "demo", "MaxResults": 100, "InstanceGroupNameContains": "head"},
    )  # fmt: skip
    controller = fixture.backend.controller(CLUSTER)
    assert controller is not None
    assert controller.instance_id == "i-0000000000000000c"


@pytest.mark.parametrize(
    ("found", "target"),
    [
        ([summary("head", "i-0000000000000000c")], "abcdefghijkl_head-i-0000000000000000c"),
        ([], None),
    ],
)
def test_session_managers_target_names_the_cluster_the_group_and_the_instance(
    fixture: Fixture, found: list[dict[str, Any]], target: str | None
) -> None:
    fixture.sagemaker.add_response("list_cluster_nodes", {"ClusterNodeSummaries": found})
    told = fixture.backend.command_target(CLUSTER)
    assert told == (target and f"sagemaker-cluster:{target}")


def test_an_event_of_another_service_is_not_this_backends(fixture: Fixture) -> None:
    assert fixture.backend.read_event({"source": "aws.ec2", "id": "1", "detail": {}}, T0) is None


def test_an_event_of_hyperpod_is_a_fact_of_its_cluster(fixture: Fixture) -> None:
    detail = {"ClusterArn": ARN, "ClusterName": "demo", "ClusterStatus": "RollingBack"}
    kind = "SageMaker HyperPod Cluster State Change"
    envelope = {"source": "aws.sagemaker", "detail-type": kind, "id": "7", "detail": detail}
    told = fixture.backend.read_event(envelope, T0)
    assert isinstance(told, BackendEvent)
    assert (told.cluster_name, told.cluster_arn) == ("demo", ARN)
    assert told.fact == ClusterState(id="aws-7", at=T0, status="RollingBack")


def test_our_clusters_are_those_with_this_deployments_tag(fixture: Fixture) -> None:
    other = ARN[:-12] + "zzzzzzzzzzzz"
    page = [
        {
            "ClusterArn": arn,
            "ClusterName": arn[-3:],
            "CreationTime": T0,
            "ClusterStatus": "InService",
        }
        for arn in (ARN, other)
    ]
    for _ in range(2):
        fixture.sagemaker.add_response(
            "list_clusters", {"ClusterSummaries": page}, {"MaxResults": 100}
        )
        if _ == 0:  # tags are asked for once
            fixture.tags(OURS)
            fixture.sagemaker.add_response(
                "list_tags", {"Tags": []}, {"ResourceArn": other, "MaxResults": 100}
            )
        assert [cluster.arn for cluster in fixture.backend.tagged()] == [ARN]


# change


def test_nodes_are_replaced_in_batches_of_25_with_failures_per_node(fixture: Fixture) -> None:
    ids = [f"i-{number:017x}" for number in range(30)]
    failed = [{"NodeId": ids[0], "ErrorCode": "InstanceIdInUse", "Message": "busy"}]
    fixture.sagemaker.add_response(
        "batch_replace_cluster_nodes",
        {"Successful": ids[1:25], "Failed": failed},
        {"ClusterName": "demo", "NodeIds": ids[:25]},
    )
    fixture.sagemaker.add_response(
        "batch_replace_cluster_nodes",
        {"Successful": ids[25:]},
        {"ClusterName": "demo", "NodeIds": ids[25:]},
    )
    result = fixture.backend.replace("demo", ids)
    assert result.successful == ids[1:]
    assert result.failed == {ids[0]: "InstanceIdInUse: busy"}


def test_a_refused_batch_does_not_hide_those_that_went_through(fixture: Fixture) -> None:
    ids = [f"i-{number:017x}" for number in range(26)]
    fixture.sagemaker.add_response("batch_reboot_cluster_nodes", {"Successful": ids[:25]})
    fixture.refuses("batch_reboot_cluster_nodes", "ValidationException", "not now")
    result = fixture.backend.reboot("demo", ids)
    assert result.successful == ids[:25]
    assert "not now" in result.failed[ids[25]]


def test_a_single_refused_batch_is_an_error(fixture: Fixture) -> None:
    fixture.refuses("batch_reboot_cluster_nodes", "ValidationException", "not now")
    with pytest.raises(errors.BackendRejected, match="not now"):
        fixture.backend.reboot("demo", ["i-0000000000000000a"])


def test_nodes_of_an_unknown_cluster_cannot_be_replaced(fixture: Fixture) -> None:
    fixture.refuses("batch_replace_cluster_nodes", "ResourceNotFound")
    with pytest.raises(errors.ClusterNotFound):
        fixture.backend.replace("demo", ["i-0000000000000000a"])


def test_deleting_asks_once_and_a_cluster_that_is_gone_is_no_error(fixture: Fixture) -> None:
    fixture.sagemaker.add_response("delete_cluster", {"ClusterArn": ARN}, {"ClusterName": "demo"})
    assert fixture.backend.delete("demo") is True
    fixture.refuses("delete_cluster", "ResourceNotFound")
    assert fixture.backend.delete("demo") is False


def test_a_cluster_that_is_gone_has_no_tag_by_which_a_call_would_be_allowed(
    fixture: Fixture,
) -> None:
    """IAM may judge the call before SageMaker looks for the cluster."""
    fixture.refuses("delete_cluster", "AccessDeniedException")
    fixture.refuses("describe_cluster", "ResourceNotFound")
    assert fixture.backend.delete("demo") is False
    fixture.refuses("batch_replace_cluster_nodes", "AccessDeniedException")
    fixture.refuses("describe_cluster", "ResourceNotFound")
    with pytest.raises(errors.ClusterNotFound):
        fixture.backend.replace("demo", ["i-0000000000000000a"])


def test_a_cluster_that_may_not_be_deleted_is_not_taken_for_gone(fixture: Fixture) -> None:
    fixture.refuses(
        "delete_cluster",
        "AccessDeniedException",
        "not authorized to perform: sagemaker:DeleteCluster",
    )
    fixture.describes()
    with pytest.raises(errors.BackendRejected, match="not authorized"):
        fixture.backend.delete("demo")


def test_deleting_while_another_operation_runs_is_a_conflict_to_repeat(fixture: Fixture) -> None:
    fixture.refuses("delete_cluster", "ConflictException", "Cluster is updating")
    with pytest.raises(errors.ConflictError, match="Cluster is updating"):
        fixture.backend.delete("demo")


# lifecycle log


def streams(*names_and_times: tuple[str, int]) -> dict[str, Any]:
    return {
        "logStreams": [
            {"logStreamName": f"LifecycleConfig/{name}", "lastEventTimestamp": at}
            for name, at in names_and_times
        ]
    }


def test_the_lifecycle_log_is_that_of_the_instance_awss_failure_names(fixture: Fixture) -> None:
    fixture.describes("Failed", FailureMessage="Instance i-0123456789abcdef0 failed to provision")
    fixture.logs.add_response(
        "describe_log_streams",
        streams(("head/i-0123456789abcdef0", 1), ("head-room/i-0000000000000000b", 9)),
    )
    fixture.logs.add_response(
        "get_log_events",
        {
            "events": [
                {"timestamp": 1, "message": "mounting /fsx\n"},
                {"timestamp": 2, "message": "no route to host"},
            ]
        },
        {
            "logGroupName": "/aws/sagemaker/Clusters/demo/abcdefghijkl",
            "logStreamName": "LifecycleConfig/head/i-0123456789abcdef0",
            "limit": 50,
            "startFromHead": False,
        },
    )
    assert fixture.backend.lifecycle_log(CLUSTER, lines=50) == "mounting /fsx\nno route to host"


def test_without_a_named_instance_the_newest_log_is_shown(fixture: Fixture) -> None:
    fixture.refuses("describe_cluster", "ResourceNotFound")
    fixture.logs.add_response(
        "describe_log_streams",
        streams(("head/i-0000000000000000a", 1), ("head-room/i-0000000000000000b", 9)),
    )
    fixture.logs.add_response("get_log_events", {"events": []})
    assert fixture.backend.lifecycle_log(CLUSTER, lines=50) == ""


def test_no_log_group_is_an_empty_log(fixture: Fixture) -> None:
    fixture.logs.add_client_error("describe_log_streams", "ResourceNotFoundException")
    assert fixture.backend.lifecycle_log(CLUSTER, lines=50, instance_id="i-0000000000000000a") == ""


def test_a_role_that_aws_does_not_know_yet_is_tried_again(fixture: Fixture) -> None:
    message = (
        "Could not assume role arn:aws:iam::111122223333:role/trainyard/prod/demo/1/prod-demo. "
        "Please ensure that the role exists "
        "and allows principal 'sagemaker.amazonaws.com' to assume the role."
    )
    fixture.finds_none()
    fixture.refuses("create_cluster", "ValidationException", message)
    with pytest.raises(errors.RetryableError, match="Could not assume role"):
        fixture.backend.create(CLUSTER)
    assert len(fixture.roles.made) == 1, "the role is there before it is named to SageMaker"


def test_a_call_that_iam_forbids_is_not_tried_again_though_its_words_name_an_assumed_role(
    fixture: Fixture,
) -> None:
    message = (
        "User: arn:aws:sts::111122223333:assumed-role/prod-StepsRole/steps is not authorized to "
        "perform: sagemaker:CreateCluster"
    )
    fixture.finds_none()
    fixture.refuses("create_cluster", "AccessDeniedException", message)
    with pytest.raises(errors.BackendRejected, match="sagemaker:CreateCluster"):
        fixture.backend.create(CLUSTER)


def test_what_was_made_beside_a_cluster_is_found_and_removed(fixture: Fixture) -> None:
    fixture.finds_none()
    fixture.refuses("create_cluster", "ResourceLimitExceeded")
    with pytest.raises(errors.BackendRejected):
        fixture.backend.create(CLUSTER)
    assert fixture.backend.remains() == [Remains("hyperpod", "demo", 1, T0)]
    fixture.backend.clean_up("demo", 1)
    fixture.backend.clean_up("demo", 1)
    assert fixture.backend.remains() == []

"""The backend against answers in the API's words, and AWS's models for what else it calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from tests.contract.test_backend_hyperpod import MemoryBlobs
from tests.support.parallelcluster_api import (
    ARN,
    HEAD,
    STACK,
    Answers,
    description,
    gone,
    instance,
    summary,
)
from tests.support.parallelcluster_specs import SETTINGS, spec

from trainyard.app.facts.log_batch import LOG_LINE, LOG_SOURCE
from trainyard.aws.send_command import SendCommand
from trainyard.backends.lifecycle_bundle import BundleSources
from trainyard.backends.parallelcluster.backend import Adapters, ParallelCluster
from trainyard.backends.parallelcluster.making import making_of
from trainyard.backends.parallelcluster.policies import policy_of
from trainyard.backends.parallelcluster.subscription import PATTERN, Subscriptions, filter_name
from trainyard.domain import clusters, errors
from trainyard.domain.capacity_refusals import Refusal, classify
from trainyard.domain.cluster_facts import ClusterEvent, ClusterState, LifecycleFailed, NodeHealth
from trainyard.domain.records import Cluster
from trainyard.domain.states import BackendStatus, NodeState
from trainyard.outside.policies import FoundPolicy, NodePolicy
from trainyard.outside.seen_clusters import Remains
from trainyard.outside.seen_events import BackendEvent
from trainyard_contracts import packed
from trainyard_contracts.cluster_specs import read_cluster_spec

T0 = datetime(2026, 11, 20, tzinfo=timezone.utc)
FUNCTION = "arn:aws:lambda:us-east-1:111122223333:function:prod-on-fact"
CLUSTER = Cluster(
    name="demo", created_at=T0, updated_at=T0, arn=ARN, spec=read_cluster_spec(spec())
)
NEW = CLUSTER.changed(arn=None)
TAGS = {
    "trainyard:stage": "prod", "trainyard:cluster": "demo", "trainyard:record": CLUSTER.mark,
}  # fmt: skip
GROUP = "/aws/parallelcluster/demo-202611200000"
SINCE = int(T0.timestamp() * 1000)


class MemoryPolicies:
    def __init__(self) -> None:
        self.made: dict[str, NodePolicy] = {}

    def ensure(self, policy: NodePolicy) -> None:
        self.made[policy.arn] = policy

    def delete(self, arn: str) -> None:
        self.made.pop(arn, None)

    def below(self, path: str) -> list[FoundPolicy]:
        return [
            FoundPolicy(one.arn, one.path, T0)
            for one in self.made.values()
            if one.path.startswith(path)
        ]


class Fixture:
    def __init__(self, sources: BundleSources) -> None:
        made = {
            name: boto3.client(
                name, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
            )
            for name in ("ssm", "logs", "ec2")
        }
        self.ssm, self.logs, self.ec2 = (Stubber(one) for one in made.values())
        for stub in (self.ssm, self.logs, self.ec2):
            stub.activate()
        self.answers, self.blobs, self.policies = Answers(), MemoryBlobs(), MemoryPolicies()
        adapters = Adapters(
            blobs=self.blobs,
            policies=self.policies,
            commands=SendCommand(made["ssm"]),
            subscriptions=Subscriptions(made["logs"], "prod", FUNCTION),
            ec2=made["ec2"],
        )
        self.backend = ParallelCluster(self.answers.api(), adapters, SETTINGS, sources)
        self.without = ParallelCluster(None, adapters, SETTINGS, sources)

    def is_there(self, **more: Any) -> None:
        self.answers.give("GET", "/clusters/demo", description(TAGS, **more))

    def is_not_there(self) -> None:
        self.answers.give("GET", "/clusters/demo", gone(), 404)

    def takes(self, **more: Any) -> None:
        self.answers.give("POST", "/clusters", {"cluster": summary(**more)}, 202)

    def is_settled(self) -> None:
        for stub in (self.ssm, self.logs, self.ec2):
            stub.assert_no_pending_responses()


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[Fixture]:
    for path in ("lifecycle/parallelcluster_node.sh", "agent/a.py", "contracts/c.py", "t/t.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"# {path}\n")
    parts = (tmp_path / name for name in ("lifecycle", "agent", "contracts", "t", "t"))
    made = Fixture(BundleSources(*parts))
    yield made
    made.is_settled()


def test_creating_makes_the_policy_and_the_files_before_it_asks_for_the_cluster(
    aws: Fixture,
) -> None:
    aws.is_not_there()
    aws.takes()
    assert aws.backend.create(NEW) == ARN
    (policy,) = aws.policies.made.values()
    (asked,) = aws.answers.calls("POST", "/clusters")
    made = json.loads(asked["clusterConfiguration"])
    assert asked["clusterName"] == "demo"
    attached = [one["Policy"] for one in made["HeadNode"]["Iam"]["AdditionalIamPolicies"]]
    assert policy.arn in attached
    (first,) = made["HeadNode"]["CustomActions"]["OnNodeConfigured"]["Sequence"]
    bucket, _, key = first["Script"].removeprefix("s3://").partition("/")
    assert bucket == SETTINGS.bucket
    assert key in aws.blobs.objects
    assert {tag["Key"]: tag["Value"] for tag in made["Tags"]} == TAGS


def test_a_node_reads_its_cluster_from_the_bundle(aws: Fixture) -> None:
    aws.is_not_there()
    aws.takes()
    aws.backend.create(NEW)
    read = json.loads(aws.blobs.objects["clusters/demo/1/lifecycle/cluster.json"])
    assert (read["sharedFilesystem"], read["sharedPath"]) == (None, "/fsx")
    assert (read["slurmSetup"], read["controllerGroup"]) == ("BackendsOwn", "HeadNode")
    assert read["workerGroups"] == [{"name": "workers", "partition": "workers"}]
    assert read["expectedWorkers"] == 0, "none of them always runs"


def test_creating_again_finds_the_cluster_that_an_earlier_try_made(aws: Fixture) -> None:
    aws.is_there()
    assert aws.backend.create(NEW) == ARN
    assert aws.answers.calls("POST", "/clusters") == []
    assert aws.blobs.objects == {}


def test_two_that_create_at_once_make_one_cluster(aws: Fixture) -> None:
    aws.is_not_there()
    aws.is_there()
    aws.answers.give("POST", "/clusters", {"message": "Cluster demo already exists"}, 400)
    assert aws.backend.create(NEW) == ARN


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trainyard:stage": "other"}, "that Trainyard did not create"),
        ({"trainyard:record": "7/2020"}, "another record of this stack"),
    ],
)
def test_a_cluster_of_somebody_else_is_never_taken_over(
    aws: Fixture, changes: dict[str, str], words: str
) -> None:
    aws.answers.give("GET", "/clusters/demo", description({**TAGS, **changes}))
    with pytest.raises(errors.ClusterNameTaken, match=words):
        aws.backend.create(NEW)
    assert aws.policies.made == {}


def test_a_name_whose_cluster_is_being_deleted_is_waited_for(aws: Fixture) -> None:
    aws.is_there(status="DELETE_IN_PROGRESS")
    with pytest.raises(errors.ConflictError, match="still being deleted"):
        aws.backend.create(NEW)


REFUSAL = {
    "message": "Invalid cluster configuration.",
    "configurationValidationErrors": [
        {
            "level": "ERROR",
            "type": "InstanceTypeValidator",
            "message": "The instance type 'c5.xlarge' is not supported.",
        }
    ],
}


def test_a_refusal_keeps_the_words_and_names_our_field(aws: Fixture) -> None:
    aws.is_not_there()
    aws.answers.give("POST", "/clusters", REFUSAL, 400)
    with pytest.raises(errors.BackendRejected, match="is not supported") as refused:
        aws.backend.create(NEW)
    assert [one.field for one in refused.value.errors] == ["queues.0.instanceTypes"]


@pytest.mark.parametrize("name", ["ours", "another"])
def test_only_our_own_policy_is_waited_for_when_iam_does_not_show_it(
    aws: Fixture, name: str
) -> None:
    ours = policy_of(making_of(NEW, SETTINGS)).arn
    missing = ours if name == "ours" else "arn:aws:iam::111122223333:policy/parallelcluster-more"
    finding = {"level": "ERROR", "type": "X", "message": f"Policy {missing} was not found."}
    aws.is_not_there()
    aws.answers.give(
        "POST", "/clusters", {**REFUSAL, "configurationValidationErrors": [finding]}, 400
    )
    expected = errors.RetryableError if name == "ours" else errors.BackendRejected
    with pytest.raises(expected, match="was not found"):
        aws.backend.create(NEW)


def test_an_api_of_another_version_is_refused_and_what_it_made_is_found_by_its_tags(
    aws: Fixture,
) -> None:
    aws.is_not_there()
    aws.takes(version="3.11.0")
    with pytest.raises(errors.BackendRejected, match=r"3\.11\.0") as refused:
        aws.backend.create(NEW)
    assert "Deploy ParallelCluster's API stack" in refused.value.next_step
    aws.answers.give("GET", "/clusters", {"clusters": [summary("CREATE_IN_PROGRESS")]})
    aws.answers._given["GET", "/clusters/demo"] = []
    aws.is_there(status="CREATE_IN_PROGRESS")
    (left,) = aws.backend.tagged()
    assert NEW.is_marked(left.tags)


def test_without_an_api_a_cluster_is_refused_with_what_to_do(aws: Fixture) -> None:
    with pytest.raises(errors.BackendRejected, match="ParallelClusterApiUrl") as refused:
        aws.without.create(NEW)
    assert "Deploy ParallelCluster's API stack" in refused.value.next_step
    assert aws.policies.made == {}


def test_without_an_api_there_is_nothing_to_sweep_and_no_event_is_read(aws: Fixture) -> None:
    aws.policies.ensure(NodePolicy("arn", "n", "/parallelcluster/trainyard/prod/a/1/", {}, {}))
    assert aws.without.tagged() == []
    assert aws.without.remains() == []
    assert aws.without.read_event(stack_change("CREATE_COMPLETE"), T0) is None


def test_an_api_that_does_not_answer_says_nothing_of_a_cluster(aws: Fixture) -> None:
    aws.answers.give("GET", "/clusters/demo", {"message": "Internal server error"}, 500)
    with pytest.raises(errors.RetryableError):
        aws.backend.describe("demo")


def test_a_dry_run_shows_the_request_the_files_and_the_findings_by_our_field(aws: Fixture) -> None:
    finding = {
        "level": "WARNING",
        "type": "InstanceTypeValidator",
        "message": "The instance type 'c5.xlarge' is an old one.",
    }
    said = {"message": "Request would have succeeded", "validationMessages": [finding]}
    aws.answers.give("POST", "/clusters", said, 412)
    plan = aws.backend.plan(NEW)
    assert plan.operation == "CreateCluster"
    assert plan.request["clusterConfiguration"]["HeadNode"]["CustomActions"]
    assert "clusters/demo/1/lifecycle/cluster.json" in plan.files
    assert plan.warnings == ["queues.0.instanceTypes: The instance type 'c5.xlarge' is an old one."]
    assert aws.answers.asked[-1][2]["dryrun"] == "true"
    (asked,) = aws.answers.calls("POST", "/clusters")
    assert "parallelcluster_node.sh" not in asked["clusterConfiguration"], "it is not there yet"
    assert aws.blobs.objects == aws.policies.made == {}


def test_a_dry_run_is_refused_as_the_cluster_would_be(aws: Fixture) -> None:
    aws.answers.give("POST", "/clusters", REFUSAL, 400)
    with pytest.raises(errors.BackendRejected) as refused:
        aws.backend.plan(NEW)
    assert [one.field for one in refused.value.errors] == ["queues.0.instanceTypes"]


def test_a_dry_run_says_that_parallelcluster_was_not_asked(aws: Fixture) -> None:
    aws.answers.give("POST", "/clusters", {"message": "Too slow"}, 504)
    for backend, words in ((aws.backend, "did not try"), (aws.without, "ParallelClusterApiUrl")):
        (warning,) = backend.plan(NEW).warnings
        assert words in warning


@pytest.mark.parametrize(
    ("status", "fleet", "means"),
    [
        ("CREATE_IN_PROGRESS", "UNKNOWN", BackendStatus.CREATING),
        ("CREATE_COMPLETE", "UNKNOWN", BackendStatus.CREATING),
        ("CREATE_COMPLETE", "RUNNING", BackendStatus.IN_SERVICE),
        ("CREATE_COMPLETE", "PROTECTED", BackendStatus.IN_SERVICE),
        ("CREATE_COMPLETE", "STOPPED", BackendStatus.CHANGING),
        ("DELETE_IN_PROGRESS", "RUNNING", BackendStatus.DELETING),
    ],
)
def test_a_cluster_is_in_service_with_its_fleet(
    aws: Fixture, status: str, fleet: str, means: BackendStatus
) -> None:
    aws.is_there(status=status, fleet=fleet)
    seen = aws.backend.describe("demo")
    assert seen is not None
    assert (seen.status, seen.arn, seen.backend) == (means, ARN, "parallelcluster")
    assert seen.said == f"{status}, its fleet {fleet}"


@pytest.mark.parametrize(("fleet", "told"), [("PROTECTED", True), ("RUNNING", False)])
def test_after_nodes_that_did_not_boot_the_fleets_protected_mode_is_told(
    aws: Fixture, fleet: str, told: bool
) -> None:
    aws.is_there(status="CREATE_COMPLETE", fleet=fleet)
    reason = aws.backend.event_reason("demo", "protected-mode-error-count")
    assert ("in protected mode now" in reason) is told
    assert ("trainyard cluster start" in reason) is told


def test_other_troubles_and_clusters_that_are_gone_ask_for_no_state(aws: Fixture) -> None:
    assert aws.backend.event_reason("demo", "node-launch-failure-count") == ""
    aws.is_not_there()
    assert aws.backend.event_reason("demo", "protected-mode-error-count") == ""


def test_a_stack_that_rolled_back_names_the_first_resource_that_failed(aws: Fixture) -> None:
    aws.is_there(
        status="CREATE_FAILED",
        failures=[{"failureCode": "HeadNodeBootstrapFailure", "failureReason": "It timed out."}],
    )
    told = [
        ("CREATE_FAILED", "Fsx", "Resource creation cancelled", 9),
        ("CREATE_FAILED", "HeadNodeWaitCondition", "WaitCondition timed out.", 8),
        ("CREATE_FAILED", "demo", "The following resource(s) failed", 9),
    ]
    aws.answers.give("GET", "/clusters/demo/stackevents", {"events": [event(*one) for one in told]})
    seen = aws.backend.describe("demo")
    assert seen is not None
    assert seen.status == BackendStatus.FAILED
    assert seen.failure_message == (
        "HeadNodeBootstrapFailure: It timed out. "
        "HeadNodeWaitCondition (AWS::X): WaitCondition timed out."
    )


def test_a_stack_that_failed_by_a_script_is_told_as_a_failed_lifecycle(aws: Fixture) -> None:
    failure = {
        "failureCode": "OnNodeConfiguredExecutionFailure",
        "failureReason": "Failed to execute OnNodeConfigured script.",
    }
    aws.is_there(status="CREATE_FAILED", failures=[failure])
    aws.answers.give("GET", "/clusters/demo/stackevents", {"events": []})
    seen = aws.backend.describe("demo")
    assert seen is not None
    assert "OnNodeConfiguredExecutionFailure: Failed" in seen.failure_message
    assert clusters.failure(seen.failure_message).code == "lifecycle-failed"


def event(status: str, resource: str, reason: str, minute: int) -> dict[str, Any]:
    return {
        "eventId": f"{resource}-{minute}",
        "stackId": ARN,
        "stackName": "demo",
        "logicalResourceId": resource,
        "resourceType": "AWS::X",
        "resourceStatus": status,
        "resourceStatusReason": reason,
        "timestamp": f"2026-11-20T00:0{minute}:00.000Z",
    }


def test_nodes_are_told_in_the_ports_words(aws: Fixture) -> None:
    aws.answers.give(
        "GET",
        "/clusters/demo/instances",
        {
            "instances": [
                instance(HEAD, "HeadNode"),
                instance("i-0000000000000000a"),
                instance("i-0000000000000000b", state="shutting-down"),
                instance("i-0000000000000000c", "LoginNode", poolName="door"),
            ]
        },
    )
    assert [(one.group, one.role, one.status) for one in aws.backend.nodes(CLUSTER)] == [
        ("HeadNode", "controller", NodeState.RUNNING),
        ("workers", "worker", NodeState.RUNNING),
        ("workers", "worker", NodeState.SHUTTING_DOWN),
        ("door", "login", NodeState.RUNNING),
    ]


def test_the_controller_is_the_head_node(aws: Fixture) -> None:
    aws.is_there()
    head = aws.backend.controller(CLUSTER)
    assert head is not None
    assert (head.instance_id, head.role, head.address) == (HEAD, "controller", "10.0.0.4")


def test_a_command_goes_to_the_head_node_which_is_looked_up_once(aws: Fixture) -> None:
    aws.is_there()
    for _ in range(2):
        sends(aws, "/opt/trainyard/bin/trainyard-agent --packed status '--run=a b; rm -rf /'")
        result = aws.backend.run(
            CLUSTER, ["trainyard-agent", "status", "--run=a b; rm -rf /"], timeout_seconds=20
        )
        assert (result.exit_code, result.stdout) == (0, "{}")
    assert len([one for one in aws.answers.asked if one[1] == "/clusters/demo"]) == 1


def test_a_long_answer_comes_packed_and_a_torn_one_is_refused(aws: Fixture) -> None:
    aws.is_there()
    long = json.dumps({"text": "\n".join(f"step {at} loss {at / 7}" for at in range(2500))})
    assert len(long) > 24_000
    ask = ["trainyard-agent", "logs", "--run=r"]
    for printed in (packed.pack(long), packed.pack(long)[:9000]):
        sends(aws, "/opt/trainyard/bin/trainyard-agent --packed logs --run=r", printed)
    assert aws.backend.run(CLUSTER, ask, timeout_seconds=20).stdout == long
    with pytest.raises(errors.CommandFailed, match="did not come whole"):
        aws.backend.run(CLUSTER, ask, timeout_seconds=20)


def sends(aws: Fixture, line: str, printed: str = "{}") -> None:
    aws.ssm.add_response(
        "send_command",
        {"Command": {"CommandId": "11111111-1111-1111-1111-111111111111"}},
        {
            "InstanceIds": [HEAD],
            "DocumentName": "AWS-RunShellScript",
            "TimeoutSeconds": 30,
            "Parameters": {"commands": [line], "executionTimeout": ["20"]},
        },
    )
    aws.ssm.add_response(
        "get_command_invocation",
        {
            "Status": "Success",
            "StatusDetails": "Success",
            "ResponseCode": 0,
            "StandardOutputContent": printed,
            "StandardErrorContent": "",
        },
    )


def test_a_cluster_without_a_head_node_is_not_reached_yet(aws: Fixture) -> None:
    aws.answers.give("GET", "/clusters/demo", {**description(TAGS), "headNode": None})
    for cluster in (CLUSTER, NEW):
        with pytest.raises(errors.NodeUnreachable):
            aws.backend.run(cluster, ["trainyard-agent", "nodes"], timeout_seconds=1)


def test_a_node_is_replaced_by_ending_its_instance(aws: Fixture) -> None:
    mine, gone_already = "i-0000000000000000a", "i-0000000000000000b"
    aws.answers.give(
        "GET",
        "/clusters/demo/instances",
        {
            "instances": [
                instance(HEAD, "HeadNode"),
                instance(mine),
                instance(gone_already, state="shutting-down"),
            ]
        },
    )
    aws.ec2.add_response("terminate_instances", {}, {"InstanceIds": [mine]})
    result = aws.backend.replace("demo", [mine, gone_already, HEAD, "i-0000000000000000f"])
    assert result.successful == [mine, gone_already]
    assert result.failed == {
        HEAD: "it is no worker of cluster 'demo'",
        "i-0000000000000000f": "it is no worker of cluster 'demo'",
    }


def test_what_ec2_refuses_is_told_for_the_node(aws: Fixture) -> None:
    aws.answers.give(
        "GET", "/clusters/demo/instances", {"instances": [instance("i-0000000000000000a")]}
    )
    aws.ec2.add_client_error("terminate_instances", "UnauthorizedOperation", "Not you.")
    result = aws.backend.replace("demo", ["i-0000000000000000a"])
    assert "Not you." in result.failed["i-0000000000000000a"]


def test_a_reboot_is_refused_in_words(aws: Fixture) -> None:
    result = aws.backend.reboot("demo", ["i-0000000000000000a"])
    assert "trainyard node replace" in result.failed["i-0000000000000000a"]


def test_deleting_asks_once_more_and_a_cluster_that_is_gone_is_gone(aws: Fixture) -> None:
    aws.answers.give("DELETE", "/clusters/demo", {"cluster": summary("DELETE_IN_PROGRESS")}, 202)
    aws.answers.give("DELETE", "/clusters/demo", gone(), 404)
    aws.is_there()
    assert [aws.backend.delete("demo"), aws.backend.delete("demo")] == [True, False]


@pytest.mark.parametrize(
    ("status", "kind"), [(400, errors.ConflictError), (500, errors.RetryableError)]
)
def test_a_delete_that_is_refused_while_the_stack_changes_is_asked_again(
    aws: Fixture, status: int, kind: type[errors.TrainyardError]
) -> None:
    said = "Cluster demo did not delete successfully. Stack demo is in UPDATE_IN_PROGRESS state."
    aws.is_there()  # the update began after this look
    aws.answers.give("DELETE", "/clusters/demo", {"message": said}, status)
    aws.answers.give("DELETE", "/clusters/demo", {"cluster": summary("DELETE_IN_PROGRESS")}, 202)
    with pytest.raises(kind, match="UPDATE_IN_PROGRESS"):
        aws.backend.delete("demo")
    aws.is_there()
    assert aws.backend.delete("demo")


def test_a_throttled_api_is_asked_again_and_makes_one_cluster(aws: Fixture) -> None:
    aws.answers.give("GET", "/clusters/demo", {"message": "Too Many Requests"}, 429)
    aws.is_not_there()
    aws.answers.give("POST", "/clusters", {"message": "Rate exceeded"}, 429)
    aws.is_not_there()
    aws.takes()
    for _ in range(2):
        with pytest.raises(errors.Throttled):
            aws.backend.create(NEW)
    assert aws.backend.create(NEW) == ARN
    assert len(aws.policies.made) == 1


@pytest.mark.parametrize("status", ["UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS"])
def test_a_cluster_that_is_updated_is_not_deleted_for_that_would_end_its_workers_and_fail(
    aws: Fixture, status: str
) -> None:
    aws.is_there(status=status)
    with pytest.raises(errors.ConflictError, match=status):
        aws.backend.delete("demo")
    assert aws.answers.calls("DELETE", "/clusters/demo") == []


def test_what_is_made_beside_a_cluster_is_found_and_removed(aws: Fixture) -> None:
    aws.is_not_there()
    aws.takes()
    aws.backend.create(NEW)
    assert aws.backend.remains() == [Remains("parallelcluster", "demo", 1, T0)]
    for _ in range(2):
        aws.logs.add_response("describe_log_groups", {"logGroups": []})
        aws.backend.clean_up("demo", 1)
    assert aws.backend.remains() == []


def test_clusters_of_this_stage_are_found_and_others_described_once(aws: Fixture) -> None:
    aws.answers.give("GET", "/clusters", {"clusters": [summary("CREATE_COMPLETE")]})
    aws.is_there()
    for _ in range(3):
        (found,) = aws.backend.tagged()
        assert found.created_at == T0 + timedelta(seconds=5)
    assert len([one for one in aws.answers.asked if one[1] == "/clusters/demo"]) == 1
    aws.answers._given["GET", "/clusters"] = []
    other = summary("CREATE_COMPLETE", cloudformationStackArn=ARN.replace("8131", "9999"))
    aws.answers.give("GET", "/clusters", {"clusters": [other]})
    assert aws.backend.tagged() == [], "the description is not of the one in the list"


# -- what comes by itself ------------------------------------------------------------------------
def stack_change(status: str, arn: str = ARN) -> dict[str, Any]:
    return {
        "source": "aws.cloudformation",
        "detail-type": "CloudFormation Stack Status Change",
        "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
        "detail": {
            "stack-id": arn,
            "status-details": {"status": status, "status-reason": "As asked."},
        },
    }


def test_a_change_of_the_stack_is_a_fact_of_its_cluster(aws: Fixture) -> None:
    read = aws.backend.read_event(stack_change("CREATE_COMPLETE"), T0)
    assert isinstance(read, BackendEvent)
    assert (read.cluster_name, read.cluster_arn) == ("demo", ARN)
    assert isinstance(read.fact, ClusterState)


def line(message: Any, stack: str = STACK, stage: str = "prod") -> dict[str, Any]:
    return {
        "source": LOG_SOURCE,
        "detail-type": LOG_LINE,
        "id": "1",
        "detail": {
            "logGroup": GROUP,
            "logStream": "ip-10-0-0-4.i-0.clustermgtd_events",
            "owner": "111122223333",
            "filters": [filter_name(stage, f"x/{stack}")],
            "message": message if isinstance(message, str) else json.dumps(message),
        },
    }


ICE = {
    "datetime": "2026-11-20T00:09:00.000+00:00",
    "version": 0,
    "scheduler": "slurm",
    "cluster-name": "demo",
    "node-role": "HeadNode",
    "component": "clustermgtd",
    "level": "ERROR",
    "instance-id": HEAD,
    "event-type": "node-launch-failure-count",
    "message": "Number of nodes that failed to launch: ice-failures",
    "detail": {
        "failure-type": "ice-failures",
        "count": 2,
        "error-details": {
            "InsufficientInstanceCapacity": {
                "count": 2,
                "nodes": [{"name": "workers-dy-nodes-1"}, {"name": "workers-dy-nodes-2"}],
            }
        },
    },
}


def test_a_lack_of_capacity_is_told_in_words_that_are_known_as_such(aws: Fixture) -> None:
    read = aws.backend.read_event(line(ICE), T0)
    assert isinstance(read, BackendEvent)
    assert read.cluster_arn == ARN, "the subscription says of which stack it is"
    assert isinstance(read.fact, ClusterEvent)
    assert classify(read.fact.failure_message) == Refusal.CAPACITY
    assert read.fact.description == (
        "2 nodes could not be started (workers-dy-nodes-1, workers-dy-nodes-2): "
        "EC2 has no capacity."
    )


def test_a_script_that_failed_is_a_failed_lifecycle(aws: Fixture) -> None:
    failed = {
        **ICE,
        "event-type": "custom-action-error",
        "message": "Failed to execute OnNodeConfigured script 1",
        "detail": {"action": "OnNodeConfigured", "step": 1, "stage": "executing"},
    }
    read = aws.backend.read_event(line(failed), T0)
    assert isinstance(read, BackendEvent)
    assert isinstance(read.fact, LifecycleFailed)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (line("not JSON"), "a line that is no event"),
        (line(ICE, stage="other"), "a subscription that is not ours"),
        (line({**ICE, "event-type": "compute-node-idle-time"}), "a figure of ParallelCluster"),
    ],
)
def test_a_line_that_tells_nothing_is_dropped(
    aws: Fixture, given: dict[str, Any], words: str
) -> None:
    read = aws.backend.read_event(given, T0)
    assert isinstance(read, str)
    assert words in read


def test_a_line_of_another_services_log_is_not_this_backends(aws: Fixture) -> None:
    foreign = line(ICE)
    foreign["detail"]["logGroup"] = "/aws/lambda/somebody"
    assert aws.backend.read_event(foreign, T0) is None


def warning(name: str = "i-0000000000000000a") -> dict[str, Any]:
    return {
        "source": "aws.ec2",
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "id": "7a7e8feb-b491-4cf7-a9f1-bf3703467718",
        "detail": {"instance-id": name, "instance-action": "terminate"},
    }


def tagged(aws: Fixture, tags: dict[str, str]) -> None:
    told = [
        {
            "Key": key,
            "Value": value,
            "ResourceId": "i-0000000000000000a",
            "ResourceType": "instance",
        }
        for key, value in tags.items()
    ]
    expected = {"Filters": [{"Name": "resource-id", "Values": ["i-0000000000000000a"]}]}
    aws.ec2.add_response("describe_tags", {"Tags": told}, expected)


def test_a_notice_of_ec2_is_told_of_the_cluster_that_the_instance_was_made_for(
    aws: Fixture,
) -> None:
    tagged(aws, TAGS)
    read = aws.backend.read_event(warning(), T0)
    assert isinstance(read, BackendEvent)
    assert (read.cluster_name, read.mark) == ("demo", CLUSTER.mark)
    assert isinstance(read.fact, NodeHealth)
    assert read.fact.instance_id == "i-0000000000000000a"


def test_a_notice_of_an_instance_of_others_is_dropped(aws: Fixture) -> None:
    for tags in ({}, {**TAGS, "trainyard:stage": "other"}):
        tagged(aws, tags)
        assert aws.backend.read_event(warning(), T0) == "it is not about an instance of ours"


def groups(aws: Fixture, *names: tuple[str, int]) -> None:
    found = [{"logGroupName": name, "creationTime": at} for name, at in names]
    prefix = {"logGroupNamePrefix": "/aws/parallelcluster/demo-"}
    aws.logs.add_response("describe_log_groups", {"logGroups": found}, prefix)


def test_the_log_is_subscribed_to_once_it_is_there(aws: Fixture) -> None:
    groups(aws)
    aws.backend.attend(CLUSTER)
    groups(
        aws,
        ("/aws/parallelcluster/demo-202611190000", SINCE - 1000),  # of an earlier cluster
        (GROUP, SINCE + 1000),
        ("/aws/parallelcluster/demo-two-202611200000", SINCE + 2000),  # of another one
    )
    aws.logs.add_response(
        "put_subscription_filter",
        {},
        {
            "logGroupName": GROUP,
            "filterName": f"trainyard/prod/{STACK}",
            "filterPattern": PATTERN,
            "destinationArn": FUNCTION,
        },
    )
    for _ in range(3):
        aws.backend.attend(CLUSTER)


def test_a_log_that_takes_no_other_subscription_hinders_no_cluster(aws: Fixture) -> None:
    groups(aws, (GROUP, SINCE))
    aws.logs.add_client_error("put_subscription_filter", "LimitExceededException", "Two at most.")
    aws.backend.attend(CLUSTER)


def test_the_subscription_of_a_cluster_that_is_gone_is_ended(aws: Fixture) -> None:
    groups(aws, (GROUP, SINCE))
    ours = f"trainyard/prod/{STACK}"
    aws.logs.add_response(
        "describe_subscription_filters",
        {"subscriptionFilters": [{"filterName": ours}]},
        {"logGroupName": GROUP, "filterNamePrefix": "trainyard/prod/"},
    )
    aws.logs.add_response(
        "delete_subscription_filter", {}, {"logGroupName": GROUP, "filterName": ours}
    )
    aws.backend.clean_up("demo", 1)
    groups(aws, (GROUP, SINCE))
    aws.logs.add_client_error("describe_subscription_filters", "ResourceNotFoundException", "Gone.")
    aws.backend.clean_up("demo", 1)


def test_the_tail_is_that_of_the_instance_that_failed_and_else_of_the_head_node(
    aws: Fixture,
) -> None:
    streams = [
        "ip-10-0-0-4.i-0123456789abcdef0.cfn-init",
        "ip-10-0-0-4.i-0123456789abcdef0.clustermgtd",
        "ip-10-0-1-5.i-0000000000000000a.cloud-init-output",
    ]
    found = [{"logStreamName": name} for name in streams]
    aws.answers.give("GET", "/clusters/demo/logstreams", {"logStreams": found})
    for at in (0, 2):
        told = [{"message": f"of {at}", "timestamp": "2026-11-20T00:00:00.000Z"}]
        aws.answers.give("GET", f"/clusters/demo/logstreams/{streams[at]}", {"events": told})
    tail = aws.backend.lifecycle_log
    assert tail(CLUSTER, lines=9) == "of 0"
    assert tail(CLUSTER, lines=9, instance_id="i-0000000000000000a") == "of 2"
    assert tail(CLUSTER, lines=9, instance_id="i-0000000000000000f") == ""

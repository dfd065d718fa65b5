"""Adopting on SageMaker's own model: what AWS says of a cluster, and what its nodes are asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from trainyard.backends.hyperpod.adopting import HyperPodAdoptions
from trainyard.backends.hyperpod.naming import HyperPodSettings
from trainyard.backends.lifecycle_bundle import BundleSources
from trainyard.domain.foreign_clusters import ForeignCluster, Mount
from trainyard.domain.records import Adoption, Cluster, ClusterNode
from trainyard.domain.states import BackendStatus, NodeState
from trainyard.outside.commands import CommandResult
from trainyard_contracts.adopting import AdoptSpec
from trainyard_contracts.files import ClusterFile

T0 = datetime(2026, 11, 20, tzinfo=timezone.utc)
ARN = "arn:aws:sagemaker:us-east-1:111122223333:cluster/abcdefghijkl"
ROLE = "arn:aws:iam::111122223333:role/Theirs"
SETTINGS = HyperPodSettings(
    stage="prod", region="us-east-1", bucket="sagemaker-data", event_bus="bus",
    secret_prefix="trainyard/prod",
    node_boundary_arn="arn:aws:iam::111122223333:policy/prod-boundary", heartbeat_seconds=60,
)  # fmt: skip
LUSTRE = {
    "DnsName": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
    "MountName": "abcdefgh",
    "MountPath": "/data",
}
NODE = ClusterNode(
    instance_id="i-0000000000000000a", group="gpu", role="worker", instance_type="ml.p5.48xlarge",
    status=NodeState.RUNNING,
)  # fmt: skip


def group(name: str, kind: str = "", count: int = 1, **more: Any) -> dict[str, Any]:
    """As DescribeCluster shows it."""
    slurm = {"SlurmConfig": {"NodeType": kind}} if kind else {}
    if kind == "Compute":
        slurm["SlurmConfig"]["PartitionNames"] = ["dev"]  # type: ignore[assignment]
    return {
        "InstanceGroupName": name,
        "InstanceType": "ml.p5.48xlarge",
        "CurrentCount": count,
        "TargetCount": count,
        "ExecutionRole": ROLE,
        "InstanceStorageConfigs": [{"FsxLustreConfig": LUSTRE}],
        **slurm,
        **more,
    }


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
        return None


class Channel:
    """Session Manager: what was sent where, and what a test says that the node answers."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, list[str]]] = []
        self.result = CommandResult(0, "", "")

    def run(
        self, target: Callable[[bool], str], argv: Sequence[str], *, timeout_seconds: float
    ) -> CommandResult:
        self.sent.append((target(False), list(argv)))
        return self.result


class Fixture:
    def __init__(self, directory: Path) -> None:
        client = boto3.client(
            "sagemaker", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
        )
        self.sagemaker, self.blobs, self.channel = Stubber(client), MemoryBlobs(), Channel()
        self.tags: dict[str, str] = {}
        for name in ("lifecycle", "agent", "contracts", "trainers", "job"):
            (directory / name).mkdir()
            (directory / name / "a.py").write_text("# a file\n")
        sources = BundleSources(
            *(directory / name for name in ("lifecycle", "agent", "contracts", "trainers", "job"))
        )
        self.adoptions = HyperPodAdoptions(
            client,
            self.blobs,
            self.channel,  # type: ignore[arg-type]
            SETTINGS,
            lambda: sources,
            lambda arn: self.tags,
        )

    def look(self, *groups: dict[str, Any], **more: Any) -> ForeignCluster:
        answer = {
            "ClusterArn": ARN,
            "ClusterName": "theirs",
            "ClusterStatus": "InService",
            "InstanceGroups": list(groups)
            or [group("head", "Controller"), group("gpu", "Compute")],
            **more,
        }
        self.sagemaker.add_response("describe_cluster", answer, {"ClusterName": "theirs"})
        seen = self.adoptions.look("theirs")
        assert seen is not None
        return seen

    def cluster(self, **asked: Any) -> Cluster:
        spec = self.adoptions.spec(
            AdoptSpec.model_validate({"name": "theirs", **asked}), self.look()
        )
        return Cluster(
            name="theirs", spec=spec, arn=ARN, adoption=Adoption(replace_nodes=False),
            created_at=T0, updated_at=T0,
        )  # fmt: skip


@pytest.fixture
def fixture(tmp_path: Path) -> Iterator[Fixture]:
    made = Fixture(tmp_path)
    with made.sagemaker:
        yield made
        made.sagemaker.assert_no_pending_responses()


def test_a_cluster_is_read_as_aws_describes_it(fixture: Fixture) -> None:
    seen = fixture.look(
        group("head", "Controller"), group("gpu", "Compute", 4), NodeRecovery="None"
    )
    assert (seen.name, seen.arn, seen.status) == ("theirs", ARN, BackendStatus.IN_SERVICE)
    assert [(one.name, one.role, one.count, one.partition) for one in seen.groups] == [
        ("head", "controller", 1, None),
        ("gpu", "worker", 4, "dev"),
    ]
    assert seen.mount == Mount(LUSTRE["DnsName"], "abcdefgh", "/data")
    assert (seen.repairs_itself, seen.ours, set(seen.roles)) == (False, "", {ROLE})


def test_what_aws_does_not_say_is_not_made_up(fixture: Fixture) -> None:
    bare = {"InstanceStorageConfigs": []}
    seen = fixture.look(group("a", **bare), group("b", **bare))
    assert [(one.role, one.partition) for one in seen.groups] == [(None, None), (None, None)]
    assert seen.mount is None


def test_groups_that_mount_different_filesystems_share_none(fixture: Fixture) -> None:
    other = [{"FsxLustreConfig": {**LUSTRE, "MountName": "zzzzzzzz"}}]
    seen = fixture.look(
        group("head", "Controller"), group("gpu", "Compute", InstanceStorageConfigs=other)
    )
    assert seen.mount is None


def test_a_cluster_that_there_is_not_is_none(fixture: Fixture) -> None:
    fixture.sagemaker.add_client_error("describe_cluster", "ResourceNotFound", "no")
    assert fixture.adoptions.look("theirs") is None


def test_a_cluster_of_a_trainyard_stack_and_one_of_eks_are_known_as_such(fixture: Fixture) -> None:
    fixture.tags = {"trainyard:stage": "another"}
    eks = {"Eks": {"ClusterArn": "arn:aws:eks:us-east-1:111122223333:cluster/k"}}
    seen = fixture.look(Orchestrator=eks)
    assert "stack 'another'" in seen.ours
    assert not seen.slurm


def test_owners_allow_replacement_by_a_tag_with_this_stacks_name(fixture: Fixture) -> None:
    assert not fixture.look().replaceable
    fixture.tags = {"trainyard:replace-nodes": "another"}
    assert not fixture.look().replaceable
    fixture.tags = {"trainyard:replace-nodes": "prod"}
    assert fixture.look().replaceable
    assert f"--resource-arn {ARN}" in fixture.look().consent


def test_the_policy_has_what_agent_and_jobs_need_and_nothing_of_another_cluster(
    fixture: Fixture,
) -> None:
    cluster = fixture.cluster(jobSecrets=["hf"], jobInputs=["s3://corpus/v1/"])
    policy = fixture.adoptions.policy(cluster)
    sids = [statement["Sid"] for statement in policy["Statement"]]
    assert {"ReportFacts", "ReadBundles", "ListData", "WriteLogsAndExports", "AgentKey"} <= {*sids}
    assert {"JobSecrets", "ReadInputs", "ListInputs"} <= {*sids}
    assert not {"Sessions", "JoinTheVpc"} & {*sids}, "their own policy has them"
    whole = json.dumps(policy)
    assert "clusters/theirs/" in whole
    assert "trainyard/prod/theirs/agent-key" in whole
    assert len(whole) < 6144, "a policy of the account takes no more"
    again = cluster.changed(generation=2)
    assert fixture.adoptions.policy(again) == policy, "whoever adopts again has the right policy"


def test_what_aws_says_makes_the_spec(fixture: Fixture) -> None:
    spec = fixture.adoptions.spec(AdoptSpec(name="theirs"), fixture.look())
    assert [(one.name, one.role, one.count, one.partition) for one in spec.instance_groups] == [
        ("head", "controller", 1, None),
        ("gpu", "worker", 1, "dev"),
    ]
    assert spec.filesystem.endswith("/abcdefgh")
    assert spec.shared_path == "/data"


def test_what_aws_does_not_say_is_said_by_who_adopts_it(fixture: Fixture) -> None:
    bare = {"InstanceStorageConfigs": []}
    groups = [group("a", **bare), group("b", count=3, **bare), group("door", **bare)]
    asked = AdoptSpec.model_validate({
        "name": "theirs",
        "sharedDir": "/shared",
        "controllerGroup": "a",
        "loginGroups": ["door"],
        "partitions": {"b": "batch"},
    })  # fmt: skip
    spec = fixture.adoptions.spec(asked, fixture.look(*groups, group("later", count=0, **bare)))
    assert [one.role for one in spec.instance_groups] == ["controller", "worker", "login"]
    assert (spec.partitions, spec.shared_path) == (["batch"], "/shared")
    assert spec.filesystem == "", "which filesystem it is, nobody knows"


def test_another_directory_than_the_mount_is_not_taken_for_that_filesystem(
    fixture: Fixture,
) -> None:
    asked = AdoptSpec.model_validate({"name": "theirs", "sharedDir": "/home/shared"})
    assert fixture.adoptions.spec(asked, fixture.look()).filesystem == ""


def test_the_nodes_find_a_bundle_that_leaves_slurm_alone(fixture: Fixture) -> None:
    fixture.adoptions.offer(fixture.cluster())
    [key] = [key for key in fixture.blobs.objects if key.endswith("cluster.json")]
    assert key == "clusters/theirs/1/lifecycle/cluster.json"
    told = ClusterFile.model_validate_json(fixture.blobs.objects[key])
    assert (told.slurm_setup, told.shared_path) == ("Adopted", "/data")
    assert told.shared_filesystem is None
    assert (told.controller_group, [one.partition for one in told.worker_groups]) == (
        "head",
        ["dev"],
    )
    before = dict(fixture.blobs.objects)
    fixture.adoptions.offer(fixture.cluster())
    assert fixture.blobs.objects == before


def test_a_node_fetches_and_runs_with_its_own_role_what_is_named_in_arguments_only(
    fixture: Fixture,
) -> None:
    fixture.channel.result = CommandResult(0, 'noise\n{"state":"installed","reason":""}\n', "")
    cluster = fixture.cluster()
    assert fixture.adoptions.install(cluster, NODE).state == "installed"
    [(target, argv)] = fixture.channel.sent
    assert target == "sagemaker-cluster:abcdefghijkl_gpu-i-0000000000000000a"
    assert argv[:4] == ["sudo", "-n", "bash", "-c"]
    assert "theirs" not in argv[4]
    assert argv[5:] == [
        "s3://sagemaker-data/clusters/theirs/1/lifecycle/adopt_node.sh",
        "s3://sagemaker-data/clusters/theirs/1/lifecycle",
        "trainyard/prod/theirs/1",
    ]
    assert len(" ".join(argv)) < 400


@pytest.mark.parametrize(
    ("result", "state", "words"),
    [
        (CommandResult(0, '{"state":"taken","reason":"prod"}', ""), "taken", "prod"),
        (
            CommandResult(1, "", "fatal error: An error occurred (403) ... Forbidden"),
            "failed",
            "lacks the statements ReadBundles and ListData",
        ),
        (CommandResult(1, "", "sudo: a password is required"), "failed", "have no sudo"),
        (CommandResult(0, "", ""), "failed", "no word"),
        (CommandResult(0, '{"state":"else"}', ""), "failed", "cannot be fetched"),
    ],
)
def test_what_a_node_answers_is_told_with_what_to_do(
    fixture: Fixture, result: CommandResult, state: str, words: str
) -> None:
    fixture.channel.result = result
    answer = fixture.adoptions.install(fixture.cluster(), NODE)
    assert answer.state == state
    assert words in answer.reason


def test_a_node_takes_back_by_what_lies_on_it_and_says_what_stays(fixture: Fixture) -> None:
    fixture.channel.result = CommandResult(0, '{"state":"gone","left":["a stays"]}', "")
    answer = fixture.adoptions.take_back(fixture.cluster(), NODE)
    assert (answer.state, answer.left) == ("gone", ["a stays"])
    [(_, argv)] = fixture.channel.sent
    assert argv[-1] == "trainyard/prod/theirs/1"
    assert "s3" not in " ".join(argv), "the role may have lost its rights by now"

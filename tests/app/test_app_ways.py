"""A run's own cluster is ready, and EC2 has no nodes for its job: the next way of the spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from tests.support.memory import Died, MemoryBackend
from tests.support.parallelcluster_specs import spec
from tests.support.story import Story, record_fact

from trainyard.domain.facts import ClusterEvent
from trainyard.domain.filesystems import TaskEnd
from trainyard.domain.states import BackendStatus
from trainyard.ports import BackendEvent

ICE, QUOTA = "InsufficientInstanceCapacity", "VcpuLimitExceeded"


class Queues(MemoryBackend):
    """A backend whose nodes come when a job wants them, and whose head node says if none come."""

    def read_event(self, envelope: Mapping[str, Any], now: datetime) -> BackendEvent | str | None:
        if envelope.get("source") != "aws.logs":
            return None
        given = envelope["detail"]
        fact = ClusterEvent(
            id=str(envelope["id"]),
            at=now,
            description="2 nodes could not be started",
            failure_message=given["codes"],
            partitions=given["partitions"],
        )
        return BackendEvent(given["name"], given["arn"], fact)


class QueueStory(Story):
    """A run on a queue from zero, of c5.2xlarge and then of c5.xlarge."""

    def begin(self, *, archive: str = "", comes_up: bool = True, **extra: Any) -> QueueStory:
        world = self.world
        self.backend = Queues(world.clock, "test", "parallelcluster", world.commands)
        backends = {**world.ports.backends, "parallelcluster": self.backend}
        world.ports = replace(world.ports, backends=backends)
        self.machines.ports = world.ports
        ways = [{"instanceType": "c5.2xlarge", "tryForSeconds": 300}, {"instanceType": "c5.xlarge"}]
        fsx = {"capacityGib": 1200, **({"archive": archive} if archive else {})}
        self.submit(cluster={"spec": spec(capacity=ways, fsx=fsx)}, **extra)
        self.rest()
        if comes_up:
            self.comes_up()
        return self

    def comes_up(self) -> None:
        self.backend.advance(self.cluster.name, BackendStatus.IN_SERVICE)
        self.send("ClusterReady", nodes=[])
        self.rest()
        if self.cluster.spec.archive:
            self.world.lustre.make_with(self.cluster)
            self.sweep()

    def tells(self, codes: str = ICE, *partitions: str) -> None:
        """A line of the head node's daemon."""
        detail = {
            "name": self.cluster.name,
            "arn": self.cluster.arn,
            "codes": codes,
            "partitions": list(partitions or ["workers"]),
        }
        envelope = {"source": "aws.logs", "id": f"e-{self.world.ids.ulid()}", "detail": detail}
        record_fact(self.world.ports, envelope)
        self.rest()

    @property
    def types(self) -> list[str]:
        return list(self.cluster.spec.queues[0].instance_types)


@pytest.fixture
def story() -> QueueStory:
    return QueueStory().begin()


def test_a_job_that_waits_in_vain_leaves_its_cluster_for_the_next_way(story: QueueStory) -> None:
    assert (story.types, story.run.status) == (["c5.2xlarge"], "Submitting")
    story.tells()
    story.pass_time(290)
    assert (story.cluster.status, story.attempt) == ("Ready", 1)
    story.pass_time(20)
    story.pass_time(3)
    assert (story.types, story.cluster.generation) == (["c5.xlarge"], 2)
    assert len(story.backend.clusters) == 1
    story.comes_up()
    story.training()
    assert (story.run.status, story.attempt) == ("Running", 2)
    story.end()
    assert (story.run.status, story.cluster.status) == ("Succeeded", "Deleted")
    for line in (
        "AWS has no nodes for job 100: 2 nodes could not be started. The next way is tried.",
        "AWS has no capacity for try 1 (c5.2xlarge, on demand).",
        "Try 2 for capacity: c5.xlarge, on demand",
    ):
        assert line in story.said
    assert story.backend.beside == {}


def test_nodes_that_come_in_time_are_kept(story: QueueStory) -> None:
    story.tells()
    story.pass_time(200)
    story.training()
    story.pass_time(600)
    assert (story.run.status, story.cluster.generation) == ("Running", 1)


def test_a_cluster_that_a_run_has_trained_on_is_never_left(story: QueueStory) -> None:
    """Its filesystem may hold the only copy of a checkpoint."""
    story.training()
    story.end("failed", errorKind="signal", signal=9, error="killed")
    assert story.attempt == 2
    story.tells()
    story.pass_time(3000)
    assert (story.cluster.status, story.cluster.generation) == ("Ready", 1)


def test_a_job_that_slurm_gave_up_for_want_of_nodes_is_asked_for_again_and_costs_no_attempt() -> (
    None
):
    story = QueueStory().begin(recovery={"maxAttempts": 2})
    story.tells()
    for _ in range(3):
        told = {"run": story.run_id, "attempt": story.attempt, "jobId": story.job}
        story.send("AttemptStarted", **told, nodes=["a", "b"], waitsFor=["a", "b"])
        story.end("failed", errorKind="signal", signal=9, neverRan=True)
        story.pass_time(30)
    assert (story.run.outcome, story.cluster.generation) == (None, 1)
    assert {one.cause for one in story.run.incidents} == {"no-capacity"}
    story.pass_time(300)
    story.pass_time(3)
    assert story.types == ["c5.xlarge"]


def test_want_of_another_queues_nodes_is_not_the_jobs(story: QueueStory) -> None:
    story = QueueStory().begin(job={"nodes": 2, "module": "m", "partition": "workers"})
    story.tells(ICE, "others")
    story.pass_time(400)
    assert (story.cluster.status, story.cluster.generation) == ("Ready", 1)


def test_a_quota_stops_the_run_at_once_with_what_to_do(story: QueueStory) -> None:
    story.tells(QUOTA)
    assert story.run.outcome == "failed"
    assert story.run.problem is not None
    assert story.run.problem.code == "backend-rejected"
    assert "VcpuLimitExceeded" in story.run.problem.detail
    assert "ask for a higher quota in Service Quotas" in story.run.problem.detail


def test_people_who_work_on_the_cluster_keep_it(story: QueueStory) -> None:
    story.tells()
    story.world.clock.tick(250)
    story.beat(otherJobs={"running": 1, "queued": 0, "users": ["ada"]})
    story.pass_time(60)
    assert (story.cluster.status, story.attempt) == ("Ready", 2)
    assert "The next way is not tried: Cluster" in story.said
    assert "is used by people: 1 running job of ada" in story.said


def _left_with_an_archive() -> QueueStory:
    """The cluster is left, and FSx exports what its own filesystem holds."""
    story = QueueStory().begin(archive="s3://my-archive/lab/")
    assert story.cluster.status == "Ready"
    story.tells()
    story.pass_time(310)
    story.sweep()
    assert story.cluster.status == "Deleting"
    assert len(story.world.lustre.tasks) == 1
    return story


def test_a_cluster_with_an_archive_is_exported_and_then_the_next_way_is_tried() -> None:
    story = _left_with_an_archive()
    assert story.run.outcome is None, story.said
    story.world.lustre.end(TaskEnd("succeeded", files=3))
    for _ in range(3):
        story.pass_time(61)
        story.sweep()
    assert (story.types, story.cluster.generation) == (["c5.xlarge"], 2), story.said
    story.comes_up()
    story.training()
    assert story.run.status == "Running"


def test_a_cluster_whose_export_failed_is_not_left_and_the_run_goes_on_there() -> None:
    story = _left_with_an_archive()
    story.world.lustre.end(TaskEnd("failed", said="The bucket is gone."))
    for _ in range(3):
        story.pass_time(61)
        story.sweep()
    assert (story.cluster.status, story.cluster.generation) == ("Ready", 1), story.said
    assert story.run.outcome is None, story.said
    story.training()
    assert story.run.status == "Running", story.said


def test_a_try_that_never_was_ready_is_deleted_without_an_export() -> None:
    story = QueueStory()
    story.world.lustre.refuse["export"] = AssertionError("there is nothing to export")
    story.begin(archive="s3://my-archive/lab/", comes_up=False)
    story.backend.advance(story.cluster.name, BackendStatus.FAILED, ICE)
    for _ in range(3):
        story.pass_time(61)
        story.sweep()
    assert (story.types, story.cluster.generation) == (["c5.xlarge"], 2), story.said
    assert len(story.backend.clusters) == 1


def test_a_cancel_while_the_cluster_is_left_makes_no_further_try(story: QueueStory) -> None:
    story.backend.deleting_takes = 10
    story.tells()
    story.pass_time(301)
    assert story.cluster.status == "Deleting"
    story.cancel()
    for _ in range(20):
        story.pass_time(5)
    assert (story.run.status, story.cluster.status) == ("Cancelled", "Deleted")
    assert (story.cluster.generation, story.backend.clusters) == (1, {})


def test_after_a_crash_at_any_write_there_is_one_cluster_of_the_next_way() -> None:
    for writes in range(1, 50):
        story = QueueStory().begin()
        story.tells()
        story.world.clock.tick(301)
        story.world.fuse.arm(writes)
        try:
            story.rest()
            story.pass_time(3)
        except Died:
            pass
        story.world.fuse.arm(None)
        for _ in range(3):
            story.pass_time(61)
            story.sweep()
        assert len(story.backend.clusters) == 1, writes
        assert (story.types, story.cluster.generation) == (["c5.xlarge"], 2), writes
        story.comes_up()
        story.training()
        assert (story.run.status, story.run.cluster_generation) == ("Running", 2), writes

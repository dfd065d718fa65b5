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

from trainyard.app.facts.situation import decide_now
from trainyard.domain.cluster_facts import ClusterEvent, ClusterLost
from trainyard.domain.filesystems import TaskEnd
from trainyard.domain.records import Cluster
from trainyard.domain.states import BackendStatus
from trainyard.outside.commands import CommandResult
from trainyard.outside.seen_events import BackendEvent

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

    def begin(
        self,
        cluster: dict[str, Any] | None = None,
        *,
        archive: str = "",
        comes_up: bool = True,
        **extra: Any,
    ) -> QueueStory:
        """`cluster`: what differs in its spec."""
        world = self.world
        self.backend = Queues(world.clock, "test", "parallelcluster", world.commands)
        backends = {**world.ports.backends, "parallelcluster": self.backend}
        world.ports = replace(world.ports, backends=backends)
        self.machines.ports = world.ports
        ways = [{"instanceType": "c5.2xlarge", "tryForSeconds": 300}, {"instanceType": "c5.xlarge"}]
        fsx = {"capacityGib": 1200, **({"archive": archive} if archive else {})}
        given = spec(**{"capacity": ways, "fsx": fsx, **(cluster or {})})
        self.submit(cluster={"spec": given}, **extra)
        self.rest()
        if comes_up:
            self.comes_up()
        return self

    def comes_up(self) -> None:
        if self.cluster.spec.archive:
            self.world.lustre.make_with(self.cluster)
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


def gets_nodes(story: QueueStory) -> None:
    """Slurm gives the newest job nodes that are still to be powered up."""
    told: dict[str, Any] = {"run": story.run_id, "attempt": story.attempt, "jobId": story.job}
    story.send("AttemptStarted", **told, nodes=["a", "b"], waitsFor=["a", "b"])


def gives_up(story: QueueStory) -> None:
    """It takes them back, because none came."""
    gets_nodes(story)
    story.end("failed", errorKind="signal", signal=9, neverRan=True)


def test_a_job_that_slurm_gave_up_for_want_of_nodes_is_asked_for_again_and_costs_no_attempt() -> (
    None
):
    story = QueueStory().begin(recovery={"maxAttempts": 2})
    story.tells()
    for _ in range(3):
        gives_up(story)
        story.pass_time(30)
    assert (story.run.outcome, story.cluster.generation) == (None, 1)
    assert {one.cause for one in story.run.incidents} == {"no-capacity"}
    story.pass_time(300)
    story.pass_time(3)
    assert story.types == ["c5.xlarge"]


def test_without_other_ways_nodes_are_asked_for_as_long_as_a_run_waits_for_one() -> None:
    given = {"maxAttempts": 2, "waitForNodeSeconds": 600}
    story = QueueStory().begin({"capacity": []}, recovery=given)
    for _ in range(4):
        story.tells()
        gives_up(story)
        assert story.run.outcome is None
        story.world.clock.tick(140)
    assert {one.cause for one in story.run.incidents} == {"no-capacity"}
    assert "Job 100 ended before its program began: 2 nodes could not be started." in story.said
    assert "was killed" not in story.said
    story.world.clock.tick(60)
    gives_up(story)
    assert story.run.problem is not None
    assert story.run.problem.code == "no-capacity"
    assert "It was asked for 600 s (recovery.waitForNodeSeconds)" in story.run.problem.detail


def test_a_job_that_never_began_for_a_reason_nobody_told_killed_no_worker_process() -> None:
    story = QueueStory().begin({"capacity": []}, recovery={"maxAttempts": 3})
    for _ in range(3):
        assert story.run.outcome is None
        gives_up(story)
    assert {one.cause for one in story.run.incidents} == {"never-began"}
    assert "Job 100 ended before its program began: its nodes did not come up." in story.said
    assert "was killed" not in story.said
    assert story.run.problem is not None
    assert story.run.problem.code == "attempts-exhausted"


def test_a_job_that_has_trained_is_none_that_never_ran_whatever_its_agent_saw(
    story: QueueStory,
) -> None:
    """The cluster holds its checkpoints, be the directory that the agent looked at empty."""
    story.training()
    story.tells()
    story.end("failed", errorKind="signal", signal=9, neverRan=True)
    story.pass_time(3000)
    assert (story.cluster.status, story.cluster.generation) == ("Ready", 1)
    assert story.run.incidents[0].cause == "worker-process"


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


def test_a_job_that_is_given_up_does_not_stay_in_the_queue() -> None:
    """Nodes that come later would run it, and nobody would watch."""
    story = QueueStory().begin(teardown="never")
    assert story.run_id in story.agent.active
    story.tells(QUOTA)
    assert (story.run.outcome, story.cluster.status) == ("failed", "Ready")
    assert story.agent.active == {}


def test_a_cancel_before_the_cluster_is_left_keeps_it_and_takes_the_job_back() -> None:
    story = QueueStory().begin(teardown="never")
    story.tells()
    story.world.clock.tick(301)
    ports = story.world.ports
    leaving = decide_now(ports, story.run).run
    assert [one.kind for one in leaving.actions] == ["leave"]
    ports.runs.put(leaving)
    story.cancel()
    story.rest()
    assert (story.run.status, story.cluster.status) == ("Cancelled", "Ready")
    assert story.agent.active == {}


@pytest.mark.parametrize("state", ["running", "ended"])
def test_a_job_that_starts_at_the_moment_at_which_its_cluster_is_left_goes_on(
    story: QueueStory, state: str
) -> None:
    """The agent knows it; its event is on the way."""
    story.tells()
    story.world.clock.tick(301)
    story.agent.states[story.run_id] = state
    story.rest()
    assert (story.cluster.status, story.attempt) == ("Ready", 1)
    assert "The next way is not tried: attempt 1 has got its nodes." in story.said
    story.training()
    story.pass_time(600)
    assert (story.run.status, story.attempt, story.cluster.generation) == ("Running", 1, 1)
    story.end()
    assert story.run.status == "Succeeded"


def test_a_job_that_started_and_then_lost_its_nodes_leaves_the_cluster_later(
    story: QueueStory,
) -> None:
    story.tells()
    story.world.clock.tick(301)
    story.agent.states[story.run_id] = "running"
    story.rest()
    gives_up(story)
    story.pass_time(3)
    assert (story.types, story.cluster.generation) == (["c5.xlarge"], 2)


def test_no_cluster_is_left_before_its_agent_has_answered(story: QueueStory) -> None:
    """Unreachable is not dead: it may train there."""
    story.tells()
    story.world.clock.tick(301)
    calls: list[str] = []

    def silent(cluster: Cluster, argv: list[str]) -> CommandResult:
        if argv[1] != "status" or len(calls) == 3:
            return story.agent(cluster, argv)
        calls.append(story.cluster.status)
        return CommandResult(255, "", "the session was closed")

    story.world.commands.answer = silent
    story.rest()
    assert calls == ["Ready"] * 3
    story.pass_time(3)
    assert (story.types, story.cluster.generation) == (["c5.xlarge"], 2)


def test_a_cluster_that_is_lost_before_it_is_left_ends_the_run(story: QueueStory) -> None:
    """Nobody is there who could be asked whether the job has begun."""
    story.tells()
    story.world.clock.tick(301)
    ports = story.world.ports
    ports.runs.put(decide_now(ports, story.run).run)
    lost = ClusterLost(id="lost", at=ports.clock.now(), reason="The controller is gone.")
    ports.clusters.record(story.cluster.name, lost)
    story.rest()
    assert story.run.status == "Failed"
    assert story.run.problem is not None
    assert story.run.problem.detail == "The controller is gone."


def test_a_try_that_is_over_when_slurm_gives_up_its_first_job_is_left_at_once(
    story: QueueStory,
) -> None:
    gets_nodes(story)
    story.tells()
    story.pass_time(400)
    assert (story.cluster.status, story.run.outcome) == ("Ready", None)
    story.end("failed", errorKind="signal", signal=9, neverRan=True)
    story.pass_time(3)
    assert (story.types, story.cluster.generation) == (["c5.xlarge"], 2)


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


@pytest.mark.parametrize("teardown", ["always", "never"])
def test_a_cancel_between_two_rounds_makes_no_cluster_when_the_next_turn_comes(
    teardown: str,
) -> None:
    """A job that never had nodes left nothing: no cluster is made, or kept, for it."""
    story = QueueStory().begin(limits={"clusterDeadlineSeconds": 36000}, teardown=teardown)
    story.tells()
    story.pass_time(301)
    story.pass_time(3)
    story.comes_up()
    story.tells()
    story.pass_time(1300)
    story.pass_time(3)
    assert (story.cluster.status, story.backend.clusters) == ("Pending", {})
    story.cancel()
    story.rest()
    for _ in range(4):
        story.pass_time(61)
        story.sweep()
    assert (story.run.status, story.cluster.status) == ("Cancelled", "Deleted")
    assert (story.backend.clusters, story.machines.running) == ({}, [])
    assert "The export failed" not in story.said
    assert "is kept" not in story.said


def test_a_cancel_while_the_next_way_is_made_leaves_nothing_of_it(story: QueueStory) -> None:
    story.tells()
    story.pass_time(301)
    story.pass_time(3)
    assert (story.cluster.status, story.cluster.generation) == ("Creating", 2)
    story.cancel()
    story.rest()
    story.pass_time(61)
    assert (story.run.status, story.cluster.status) == ("Cancelled", "Deleted")
    assert story.backend.clusters == {}
    assert "is kept" not in story.said


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

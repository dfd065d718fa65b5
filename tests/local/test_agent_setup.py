"""No job trains on a node that Slurm has but whose agent, which starts last, was never linked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.agent import RUN
from tests.support.agent_cluster import AgentCluster, agent_cluster
from tests.support.agent_jobs import event, submit
from tests.support.waiting import eventually

STEPS = ["--steps", "20", "--step-seconds", "0.02", "--every", "10"]
OTHER = RUN[:-1] + "b"


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[AgentCluster]:
    """Slurm runs on three workers; the setup of the first is not over."""
    with agent_cluster(tmp_path / "c", workers=3, agents=False, expectedWorkers=2) as cluster:
        for node in (cluster.controller, *cluster.worker_nodes[1:]):
            cluster.start_agent(node)
        eventually("ClusterReady", lambda: cluster.sink.of("ClusterReady"), 20)
        yield cluster


def log_of(cluster: AgentCluster) -> str:
    path = cluster.shared / f"trainyard/runs/{RUN}/attempts/1/job.log"
    return path.read_text() if path.exists() else ""


def test_a_job_that_needs_every_node_trains_once_the_last_is_set_up(growing: AgentCluster) -> None:
    new = growing.worker_nodes[0]
    submit(growing, nodes=3, arguments=STEPS)
    started = event(growing, "AttemptStarted")
    assert new.name in started["nodes"]
    assert started["waitsFor"] == [new.name]
    eventually("the job that waits", lambda: "being set up" in log_of(growing), 20)
    assert (
        log_of(growing).splitlines()[-1]
        == f"Waiting for nodes that are still being set up: {new.name}"
    )
    assert growing.ranks(RUN, growing.worker_nodes[1].name) == []
    growing.start_agent(new)
    assert event(growing, "AttemptEnded")["outcome"] == "succeeded"


def test_a_node_that_is_being_set_up_is_left_out_where_others_are_enough(
    growing: AgentCluster,
) -> None:
    submit(growing, nodes=2, arguments=STEPS)
    assert event(growing, "AttemptEnded")["outcome"] == "succeeded"
    started = event(growing, "AttemptStarted")
    assert (started["nodes"], started["waitsFor"]) == (
        [node.name for node in growing.worker_nodes[1:]],
        [],
    )


def test_a_job_in_the_queue_may_use_a_node_as_soon_as_it_is_set_up(growing: AgentCluster) -> None:
    new = growing.worker_nodes[0]
    submit(growing, nodes=2)
    event(growing, "AttemptStepped", runId=RUN)
    submit(growing, run=OTHER, nodes=1, arguments=STEPS)
    eventually("the job in the queue", lambda: growing.sink.of("AttemptQueued", runId=OTHER), 20)
    growing.start_agent(new)
    assert event(growing, "AttemptStarted", runId=OTHER)["nodes"] == [new.name]
    assert event(growing, "AttemptEnded", runId=OTHER)["outcome"] == "succeeded"


def test_an_agent_that_was_killed_while_a_job_waits_for_a_node_lets_it_go_on(
    growing: AgentCluster,
) -> None:
    new = growing.worker_nodes[0]
    submit(growing, nodes=3, arguments=STEPS)
    eventually("the job that waits", lambda: "being set up" in log_of(growing), 20)
    growing.kill_agent(growing.controller)
    growing.start_agent(new)
    growing.start_agent(growing.controller)
    assert event(growing, "AttemptEnded")["outcome"] == "succeeded"


def test_a_job_that_waits_for_a_node_is_cancelled_without_a_kill(growing: AgentCluster) -> None:
    submit(growing, nodes=3, arguments=STEPS)
    eventually("the job that waits", lambda: "being set up" in log_of(growing), 20)
    assert growing.agent("cancel", "--run", RUN) == {"state": "cancelling"}
    assert event(growing, "AttemptEnded")["outcome"] == "cancelled"
    assert "killing it" not in (growing.controller.root / "var/log/trainyard/agent.log").read_text()

"""A node that stands still on a real Slurm is lost in seconds, and no error of the program's."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN
from tests.support.agent_cluster import AgentCluster, Node, agent_cluster
from tests.support.agent_jobs import arrival, event, node_named, submit, training
from tests.support.waiting import eventually

#: Of a silence of 3.5 s that begins with the last beat, plus what a busy machine takes.
NOTICED_SECONDS = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[AgentCluster]:
    with agent_cluster(tmp_path / "c", workers=3) as running:
        eventually("ClusterReady", lambda: running.sink.of("ClusterReady"), 20)
        yield running


def freeze(cluster: AgentCluster, *nodes: Node) -> float:
    """SIGSTOP everything on these nodes, also what is forked meanwhile; returns the moment."""
    at, stopped = time.time(), set()
    while fresh := {pid for node in nodes for pid in everything_on(cluster, node)} - stopped:
        signal_all(fresh, signal.SIGSTOP)
        stopped |= fresh
    return at


def thaw(cluster: AgentCluster, *nodes: Node) -> None:
    signal_all({pid for node in nodes for pid in everything_on(cluster, node)}, signal.SIGCONT)


def everything_on(cluster: AgentCluster, node: Node) -> list[int]:
    """Step daemons write their title over their environment; they work on their node's disk."""
    return cluster.node_processes(node) + [
        pid for pid in step_daemons() if works_below(node.root, pid)
    ]


def step_daemons() -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "comm").read_text().startswith("slurmstepd"):
                found.append(int(entry.name))
    return found


def works_below(root: Path, pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(os.readlink(f"/proc/{pid}/cwd")).is_relative_to(root)
    return False


def signal_all(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def step(cluster: AgentCluster) -> int:
    return int(cluster.agent("status", "--run", RUN)["step"] or 0)


def goes_on(cluster: AgentCluster) -> None:
    before = step(cluster)
    eventually("training advances", lambda: step(cluster) > before, 20)


def lost(cluster: AgentCluster) -> list[dict[str, Any]]:
    return cluster.sink.of("NodeLost")


@pytest.mark.parametrize("victim", ["batch host", "other worker"])
def test_a_node_that_stands_still_is_lost_and_what_it_left_ends_when_it_comes_back(
    cluster: AgentCluster, victim: str
) -> None:
    nodes = training(cluster)
    bad = node_named(cluster, nodes[0] if victim == "batch host" else nodes[1])
    fault = freeze(cluster, bad)
    found = event(cluster, "NodeLost")
    noticed = arrival(cluster, "NodeLost") - fault
    about = found["about"]
    assert (about["node"], about["agent"], about["scheduler"]) == (bad.name, "silent", "down")
    assert "slurmd does not answer" in about["detail"]
    assert noticed < NOTICED_SECONDS
    submit(cluster, 2, downNodes=[bad.name], excludeNodes=[bad.name])
    event(cluster, "AttemptStepped", attempt=2)
    print(
        f"\n{victim}: lost after {noticed:.2f} s, "
        f"first step after {arrival(cluster, 'AttemptStepped', attempt=2) - fault:.2f} s"
    )
    ended = event(cluster, "AttemptEnded", attempt=1)
    assert (ended["outcome"], ended["errorKind"], ended["failedNode"]) == (
        "failed",
        "node",
        bad.name,
    )
    before = {entry["path"] for entry in cluster.sink.of("CheckpointCommitted", attempt=1)}
    assert cluster.processes(TRAINYARD_RUN_ID=RUN, TRAINYARD_ATTEMPT="1"), (
        "the frozen ones are still there"
    )
    thaw(cluster, bad)
    assert event(cluster, "NodeReturned")["about"]["node"] == bad.name
    assert cluster.processes(TRAINYARD_RUN_ID=RUN, TRAINYARD_ATTEMPT="1") == []
    goes_on(cluster)
    assert {entry["path"] for entry in cluster.sink.of("CheckpointCommitted", attempt=1)} == before
    assert (cluster.shared / f"trainyard/runs/{RUN}/fence").read_text().strip() == "2"
    assert cluster.sink.of("AttemptEnded", attempt=2) == []
    eventually(
        "the node serves again", lambda: cluster.node_state(bad).lower().startswith("idle"), 20
    )


@pytest.mark.long
def test_a_job_that_fails_while_a_node_of_it_stands_still_is_that_nodes_loss(
    cluster: AgentCluster,
) -> None:
    nodes = training(cluster)
    bad = node_named(cluster, nodes[1])
    freeze(cluster, bad)
    for pid in cluster.ranks(RUN, nodes[0]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGABRT)
    ended = event(cluster, "AttemptEnded", 40)
    assert (ended["outcome"], ended["errorKind"], ended["failedNode"]) == (
        "failed",
        "node",
        bad.name,
    ), ended
    assert [entry["about"]["node"] for entry in lost(cluster)] == [bad.name]


def test_a_node_that_stands_still_for_a_second_is_not_lost(cluster: AgentCluster) -> None:
    bad = node_named(cluster, training(cluster)[1])
    freeze(cluster, bad)
    time.sleep(1)
    thaw(cluster, bad)
    goes_on(cluster)
    assert cluster.sink.of("AgentSilent") == lost(cluster) == cluster.sink.of("AttemptEnded") == []


@pytest.mark.parametrize(
    "whose",
    [
        "batch host's",
        pytest.param("controller's", marks=pytest.mark.long),
        pytest.param("idle node's", marks=pytest.mark.long),
    ],
)
def test_an_agent_that_stands_still_for_twenty_seconds_loses_no_node(
    cluster: AgentCluster, whose: str
) -> None:
    nodes = training(cluster)
    idle = next(node for node in cluster.worker_nodes if node.name not in nodes)
    node = {
        "controller's": cluster.controller,
        "batch host's": node_named(cluster, nodes[0]),
        "idle node's": idle,
    }[whose]
    assert node.agent is not None
    node.agent.send_signal(signal.SIGSTOP)
    time.sleep(20)
    node.agent.send_signal(signal.SIGCONT)
    if node is not cluster.controller:
        assert event(cluster, "AgentSilent")["about"]["scheduler"] == "up"
        assert event(cluster, "AgentBack")["about"]["node"] == node.name
    goes_on(cluster)
    assert lost(cluster) == cluster.sink.of("AttemptEnded") == []


def test_when_no_node_is_heard_any_more_the_judgement_waits(cluster: AgentCluster) -> None:
    """As when the controller's link is cut. Here Slurm gives nodes up after 10 s (AWS: 300 s)."""
    training(cluster)
    freeze(cluster, *cluster.worker_nodes)
    eventually("every agent is silent", lambda: len(cluster.sink.of("AgentSilent")) == 3, 20)
    assert all(
        "this controller's own link" in entry["about"]["detail"]
        for entry in cluster.sink.of("AgentSilent")
    )
    time.sleep(2)
    thaw(cluster, *cluster.worker_nodes)
    eventually("every agent is back", lambda: len(cluster.sink.of("AgentBack")) == 3, 20)
    goes_on(cluster)
    assert lost(cluster) == cluster.sink.of("AttemptEnded") == []

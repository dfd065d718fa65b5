"""What the controller concludes of nodes, as pure functions of what it knows."""

from __future__ import annotations

import pytest

from trainyard_agent.host.slurm import SlurmNode
from trainyard_agent.nodes.activity import Activity
from trainyard_agent.nodes.members import CHANGES_TOLD, changes, drained_by_mistake, partition_sizes
from trainyard_agent.nodes.node_table import Node, evidence_of
from trainyard_agent.nodes.questions import Questions
from trainyard_agent.nodes.returns import may_be_resumed
from trainyard_agent.nodes.silence import census, signals_of, why_not_lost


def slurm_node(name: str, state: str, reason: str = "", *partitions: str) -> SlurmNode:
    return SlurmNode(name, state, "10.0.0.1", 6818, reason, partitions)


def test_what_one_event_tells_is_first_what_is_gone_and_then_what_is_new() -> None:
    assert changes(["b", "c"], {"a", "b"}) == (["a"], ["c"])
    old = {f"old-{number:05}" for number in range(CHANGES_TOLD - 1)}
    assert changes(["x", "y"], old) == (sorted(old), ["x"])
    assert changes(["x"], {"old", *old}) == (sorted({"old", *old}), [])


def test_partitions_are_counted_by_their_nodes() -> None:
    nodes = {
        "a": slurm_node("a", "idle", "", "dev", "main"),
        "b": slurm_node("b", "idle", "", "main"),
    }
    assert partition_sizes(["a", "b", "gone"], nodes) == {"dev": 1, "main": 2}


@pytest.mark.parametrize(
    ("state", "reason", "resumed"),
    [
        ("down", "Not responding [slurm@2026-11-20T23:07:50]", True),
        ("idle+cloud", "trainyard: node lost", True),
        ("down", "Node unexpectedly rebooted", True),
        ("down+drain", "trainyard: node lost", False),
        ("down", "a person's own reason", False),
        ("down", "Action:Reboot", False),
        ("mixed", "Not responding", False),
    ],
)
def test_only_a_node_that_nobody_else_set_down_is_resumed(
    state: str, reason: str, resumed: bool
) -> None:
    assert may_be_resumed(slurm_node("a", state, reason)) is resumed


def test_a_node_that_hyperpod_repairs_was_not_drained_by_mistake() -> None:
    assert drained_by_mistake(slurm_node("a", "idle+drain", "Duplicate jobid"))
    assert not drained_by_mistake(slurm_node("a", "idle", "Duplicate jobid"))
    assert not drained_by_mistake(slurm_node("a", "idle+drain", "Action:Replace"))


def test_a_silent_node_says_why_it_is_not_lost() -> None:
    training = Activity("run", 1, False, 90.0, 1.0)
    up = evidence_of(Node("a", "silent", slurmd="up"), in_slurm=True, now=0.0)
    unknown = evidence_of(Node("a", "silent"), in_slurm=True, now=0.0)
    assert "this controller's own link" in why_not_lost(None, unknown, held=True, now=100.0)
    assert why_not_lost(training, unknown, held=False, now=100.0) == "training stepped 10.0 s ago"
    assert why_not_lost(training, up, held=False, now=100.0) == ""
    assert why_not_lost(None, unknown, held=False, now=100.0) == ""


@pytest.mark.parametrize(
    ("node", "in_slurm", "agent", "scheduler"),
    [
        (Node("a", "linked", connected=True), True, "linked", "up"),
        (Node("a", "linked", connected=True), False, "linked", "unknown"),
        (Node("a", "silent", slurmd="up"), True, "silent", "up"),
        (Node("a", "silent", slurmd="refused"), True, "silent", "down"),
        (Node("a", "lost", slurmd="silent"), True, "silent", "down"),
        (Node("a"), True, "unknown", "unknown"),
    ],
)
def test_evidence_tells_the_agent_and_the_scheduler_apart(
    node: Node, in_slurm: bool, agent: str, scheduler: str
) -> None:
    found = evidence_of(node, in_slurm=in_slurm, now=node.last_beat + 7.0)
    assert (found.agent, found.scheduler) == (agent, scheduler)
    assert found.detail.startswith("" if node.connected else "no beat for 7.0 s; slurmd")


def test_a_census_counts_who_is_looked_into_and_whom_it_heard_last() -> None:
    nodes = [
        Node("a", "linked", heard=1.0),
        Node("b", "silent", heard=3.0, questions=Questions()),
        Node("c", "lost", heard=9.0),
        Node("d", "linked", heard=2.0),
    ]
    found = census(nodes, 10.0)
    assert (found.at, found.silent, list(found.heard)) == (10.0, 1, [(3.0, "b"), (2.0, "d")])


def test_training_is_quiet_since_its_last_step_or_since_its_node_fell_silent() -> None:
    node = Node("a", "linked", silent_since=80.0)

    def quiet(activity: Activity | None) -> float | None:
        signals = signals_of(node, Questions(), activity, alone=None, silent_after=3.0, now=100.0)
        return signals.quiet

    assert quiet(None) is None
    assert quiet(Activity("run", 1, False, None, None)) == 20.0
    assert quiet(Activity("run", 1, False, 90.0, 1.0)) == 10.0

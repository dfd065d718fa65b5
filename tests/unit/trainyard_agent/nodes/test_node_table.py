"""What is told of a node as evidence."""

from __future__ import annotations

import pytest

from trainyard_agent.nodes.node_table import Node, evidence_of


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

"""Which nodes are taken back into service."""

from __future__ import annotations

import pytest
from tests.support.agent import slurm_node

from trainyard_agent.nodes.returns import may_be_resumed


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

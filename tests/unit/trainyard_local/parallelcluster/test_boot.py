"""An instance takes its node back in Slurm, and not the node of the instance that followed it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from trainyard_local.parallelcluster import boot

NAME = "q-st-nodes-1"
LEAVING = "DOWN+CLOUD+POWERING_DOWN"
UNKNOWN = "DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING"
DOWN, UP = "DOWN+CLOUD", "IDLE+CLOUD"


class Cluster:
    """Slurm tells these states, one after the other; once it is told to, the node is up."""

    def __init__(self, instance: Any, states: Sequence[str]) -> None:
        self.closing = threading.Event()
        self.settings = SimpleNamespace(suspend_seconds=0)
        self.instance, self.left = instance, list(states)
        self.told = list[tuple[str, str]]()

    def instance_of(self, name: str) -> Any:
        return self.instance

    def scontrol(self, *argv: str) -> str:
        self.last = UP if self.told else self.left.pop(0)
        return f"NodeName={NAME} NodeAddr=127.0.0.1 State={self.last}\n"

    def update_node(self, name: str, **fields: str) -> None:
        self.told.append((fields["state"], self.last))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "RESUME_SECONDS", 0.0)


@pytest.mark.parametrize(("is_there", "told"), [(True, [("resume", DOWN)]), (False, [])])
def test_only_the_instance_that_is_there_takes_the_node_back(
    is_there: bool, told: list[tuple[str, str]]
) -> None:
    node: Any = SimpleNamespace(label=NAME)
    cluster: Any = Cluster(node if is_there else object(), [DOWN])
    boot._resume(cluster, node)
    assert cluster.told == told


def test_a_node_is_taken_back_only_once_slurm_knows_its_slurmd() -> None:
    """Else Slurm gives it a job at once, and powers it up a second time."""
    node: Any = SimpleNamespace(label=NAME)
    cluster: Any = Cluster(node, [UNKNOWN, LEAVING, UNKNOWN, DOWN])
    boot._resume(cluster, node)
    assert cluster.told == [("resume", DOWN)]


def test_a_slurmd_waits_until_slurm_has_powered_the_node_down() -> None:
    node: Any = SimpleNamespace(label=NAME)
    cluster: Any = Cluster(node, [LEAVING, LEAVING, UNKNOWN, DOWN])
    boot._await_powered_down(cluster, node)
    assert cluster.left == [DOWN]

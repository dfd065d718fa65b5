"""An instance takes its node back in Slurm, and not the node of the instance that followed it."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from trainyard_local.parallelcluster import boot

DOWN = "NodeName=q-st-nodes-1 NodeAddr=127.0.0.1 State=DOWN+CLOUD\n"
UP = "NodeName=q-st-nodes-1 NodeAddr=127.0.0.1 State=IDLE+CLOUD\n"


class Cluster:
    """Slurm sets the node up when it is told so."""

    def __init__(self, instance: Any) -> None:
        self.closing = threading.Event()
        self.instance, self.told = instance, list[str]()

    def instance_of(self, name: str) -> Any:
        return self.instance

    def scontrol(self, *argv: str) -> str:
        return UP if self.told else DOWN

    def update_node(self, name: str, **fields: str) -> None:
        self.told.append(fields["state"])


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "RESUME_SECONDS", 0.0)


@pytest.mark.parametrize(("is_there", "told"), [(True, ["resume"]), (False, [])])
def test_only_the_instance_that_is_there_takes_the_node_back(
    is_there: bool, told: list[str]
) -> None:
    node: Any = SimpleNamespace(label="q-st-nodes-1")
    cluster: Any = Cluster(node if is_there else object())
    boot._resume(cluster, node)
    assert cluster.told == told

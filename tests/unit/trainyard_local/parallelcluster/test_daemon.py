"""The head node's daemon judges by what Slurm said, which is older than the instances it sees."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from trainyard_local.parallelcluster import daemon

NAME = "first-st-nodes-1"
DOWN = f"NodeName={NAME} NodeAddr=127.0.0.1 NodeHostName=ip-127-0-0-1 State=DOWN+CLOUD Reason=x"


def cluster(*, boots_while_slurm_answers: bool) -> tuple[Any, list[object]]:
    """One static node that Slurm calls down, and whose instance has booted in the end."""
    instance = SimpleNamespace(
        label=NAME, booted=not boots_while_slurm_answers, group="first", role="Compute"
    )
    ended: list[object] = []

    def scontrol(*_: str) -> str:
        instance.booted = True
        return DOWN

    configuration = SimpleNamespace(node_names=lambda: [NAME])
    found = SimpleNamespace(
        fleet="RUNNING", configuration=configuration, boot_failures={}, without_capacity={},
        settings=SimpleNamespace(protected_failures=10), instances=lambda: [instance],
        instance_of=lambda name: instance, scontrol=scontrol, terminate=ended.append,
        update_node=lambda *_, **__: None,
    )  # fmt: skip
    return found, ended


def replaced(monkeypatch: Any, *, boots_while_slurm_answers: bool) -> bool:
    found, ended = cluster(boots_while_slurm_answers=boots_while_slurm_answers)
    monkeypatch.setattr(daemon, "_tell_unhealthy", lambda *_: None)
    monkeypatch.setattr(daemon.fleet, "launch", lambda *_: {})
    daemon.look(found)
    return bool(ended)


def test_a_static_node_that_booted_while_slurm_answered_is_not_replaced(monkeypatch: Any) -> None:
    assert not replaced(monkeypatch, boots_while_slurm_answers=True)


def test_a_static_node_that_had_booted_and_is_down_is_replaced(monkeypatch: Any) -> None:
    assert replaced(monkeypatch, boots_while_slurm_answers=False)

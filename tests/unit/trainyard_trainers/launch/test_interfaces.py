"""The interface of a node's address, and what a job's processes are told of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainyard_trainers.launch import interfaces, node_part
from trainyard_trainers.launch.allocation import Allocation, Job, Node


def test_loopback_is_found_by_its_address_and_an_unknown_address_nowhere() -> None:
    assert interfaces.interface_of("127.0.0.1") == "lo"
    assert interfaces.interface_of("192.0.2.1") is None


@pytest.mark.parametrize(
    ("address", "environment", "told"),
    [
        ("127.0.1.12", {}, "lo"),
        ("10.1.2.3", {}, "ens5"),
        ("10.1.2.4", {}, None),
        ("10.1.2.3", {"GLOO_SOCKET_IFNAME": "bond0"}, "bond0"),
    ],
)
def test_gloo_is_told_the_nodes_interface_and_looks_no_name_up(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    environment: dict[str, str],
    told: str | None,
) -> None:
    document = {
        "runId": "run-1",
        "attempt": 1,
        "recipe": "torchrun",
        "program": ["train.py"],
        "environment": environment,
    }
    job = Job(tmp_path / "run" / "attempts" / "1", document)
    job.attempt_dir.mkdir(parents=True)
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr("sys.path", [])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(interfaces, "interface_of", {"10.1.2.3": "ens5"}.get)
    allocation = Allocation(job, Node("a", 0, ("a", "b"), "7"), {"a": address, "b": "10.1.2.9"})
    node_part._set_environment(allocation)
    assert os.environ.get("GLOO_SOCKET_IFNAME") == told

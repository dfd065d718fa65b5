"""What Slurm needs here is there or named; two local clouds do not take each other's ports."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from trainyard_local.slurm import cluster
from trainyard_local.slurm.cluster import Ports, SlurmMissing, require_programs

pytestmark = pytest.mark.real


def test_a_port_that_another_cloud_took_is_passed_over_though_its_daemon_does_not_listen_yet() -> (
    None
):
    one, other = Ports(first=21900), Ports(first=21900)
    taken, others = one.take(), other.take()
    assert taken != others
    one.give_back([taken])
    assert other.take() == taken
    other.give_back([taken, others])


def test_a_daemon_listens_on_the_port_that_was_taken_for_it() -> None:
    ports = Ports(first=21950)
    port = ports.take()
    with socket.create_server(("127.0.0.1", port)):
        ports.give_back([port])
        assert ports.take() != port


def test_a_machine_on_which_slurmd_cannot_start_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "PROGRAMS", ())
    monkeypatch.setattr(cluster, "CGROUPS", str(tmp_path))
    with pytest.raises(SlurmMissing, match=f"nothing is mounted at {tmp_path}.*mount -t cgroup2"):
        require_programs()

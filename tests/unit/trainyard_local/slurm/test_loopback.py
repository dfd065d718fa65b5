"""Local nodes' Slurm listens on loopback where the host may be named `localhost`, else as usual."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainyard_local.slurm import loopback
from trainyard_local.slurm.cluster import SlurmCluster, SlurmNode

pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    loopback._thread.cache_clear()
    yield
    loopback._thread.cache_clear()


def configuration(directory: Path) -> str:
    cluster = SlurmCluster("abcdefghijkl", directory, 21000)
    cluster.write_nodes([SlurmNode("127.20.0.11", 21001, "main")])
    return cluster.configuration(directory / "root") + cluster.nodes_file.read_text()


def hostname() -> str:
    program = loopback.popen(["hostname"], stdout=subprocess.PIPE)
    return program.communicate()[0].decode().strip()


def refuse() -> None:
    raise OSError("not permitted")


def test_programs_of_nodes_see_localhost_and_this_process_keeps_its_name() -> None:
    own = socket.gethostname()
    if not loopback.possible():
        pytest.skip("this machine permits no namespaces")
    if os.geteuid() == 0:
        assert hostname() == "localhost"
    assert socket.gethostname() == own


def test_slurm_is_told_to_bind_to_the_hosts_name_where_that_means_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loopback, "call_the_host_localhost", lambda: None)
    text = configuration(tmp_path)
    assert "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny\n" in text
    assert "SlurmctldHost=localhost(127.0.0.1)\n" in text
    assert "NodeName=ip-127-20-0-11 NodeHostname=localhost NodeAddr=127.0.0.1 Port=21001 " in text


def test_where_the_host_keeps_its_name_slurm_binds_as_ever_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loopback, "call_the_host_localhost", refuse)
    with caplog.at_level(logging.WARNING):
        assert "CommunicationParameters" not in configuration(tmp_path)
    assert "listen on every address of this machine: not permitted" in caplog.text
    assert hostname() == socket.gethostname()


def test_a_missing_program_is_said_to_its_caller() -> None:
    with pytest.raises(FileNotFoundError):
        loopback.popen(["/no/such/program"])

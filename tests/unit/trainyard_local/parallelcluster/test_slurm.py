"""What Slurm says of nodes is read, and what it asks for is found once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.support.parallelcluster_specs import making, spec

from trainyard.backends.parallelcluster.config import configuration
from trainyard_local.parallelcluster.configuration import read
from trainyard_local.parallelcluster.slurm import PowerSavingSlurm, flags, nodes_of

ANSWER = (
    "NodeName=q-dy-nodes-1 Arch=x86_64 NodeAddr=127.0.0.1 NodeHostName=ip-127-0-0-9 "
    "State=DOWN+CLOUD+POWERED_DOWN Partitions=q Reason=(Code:Insufficient)Failure when "
    "resuming nodes [root@2026-11-24T10:00:00]\n"
    "NodeName=q-st-nodes-1 NodeAddr=q-st-nodes-1 State=IDLE*+CLOUD ThreadsPerCore=1\n"
)


def test_nodes_are_read_with_their_reasons() -> None:
    found = nodes_of(ANSWER)
    assert found["q-dy-nodes-1"]["Reason"] == "(Code:Insufficient)Failure when resuming nodes"
    assert flags(found["q-dy-nodes-1"]) == {"DOWN", "CLOUD", "POWERED_DOWN"}
    assert (found["q-st-nodes-1"]["NodeAddr"], found["q-st-nodes-1"]["Reason"]) == (
        "q-st-nodes-1",
        "",
    )
    assert flags(found["q-st-nodes-1"]) == {"IDLE", "CLOUD"}


@pytest.fixture
def slurm(tmp_path: Path) -> PowerSavingSlurm:
    ports = {"workers-st-nodes-1": 21001, "workers-dy-nodes-1": 21002}
    found = PowerSavingSlurm("c" * 12, tmp_path, 21000, ports=ports)
    found.write_programs()
    made = configuration(making(spec(queue={"min": 1, "max": 2})))
    found.write(read("", made), {"interval": 30, "resume": 1800, "suspend": 120, "idle": 600})
    return found


@pytest.mark.real
def test_what_slurm_asks_for_is_found_once(slurm: PowerSavingSlurm, tmp_path: Path) -> None:
    subprocess.run([tmp_path / "slurm_resume", "q-dy-nodes-[1-2]"], check=True)
    subprocess.run([tmp_path / "slurm_suspend", "q-dy-nodes-3"], check=True)
    assert [(one.word, one.names) for one in slurm.requests()] == [
        ("resume", "q-dy-nodes-[1-2]"),
        ("suspend", "q-dy-nodes-3"),
    ]
    assert slurm.requests() == []


def test_static_nodes_are_never_suspended_and_come_first(slurm: PowerSavingSlurm) -> None:
    lines = slurm.nodes_file.read_text().splitlines()
    assert "SuspendExcNodes=workers-st-nodes-1" in lines
    weights = {
        line.split()[0]: line.split("Weight=")[1] for line in lines if line.startswith("NodeName")
    }
    assert weights == {"NodeName=workers-st-nodes-1": "1", "NodeName=workers-dy-nodes-1": "1000"}
    assert any(line.startswith("PartitionName=workers ") for line in lines)


def test_every_nodes_name_means_an_address_and_the_file_only_grows(
    slurm: PowerSavingSlurm,
) -> None:
    """Of a node that lost its instance, slurmctld would otherwise ask for ten seconds."""
    before, inode = slurm.hosts_file.read_text(), slurm.hosts_file.stat().st_ino
    names = [line.split()[1] for line in before.splitlines() if "-nodes-" in line]
    assert names == ["workers-st-nodes-1", "workers-dy-nodes-1"]
    slurm.write_hosts()
    assert slurm.hosts_file.read_text() == before
    slurm.ports["workers-dy-nodes-2"] = 21003
    slurm.write_hosts()
    assert slurm.hosts_file.read_text() == f"{before}127.0.0.1 workers-dy-nodes-2\n"
    assert slurm.hosts_file.stat().st_ino == inode


def test_settings_of_the_configuration_win_and_our_programs_lie_below_the_nodes_root(
    slurm: PowerSavingSlurm, tmp_path: Path
) -> None:
    text = slurm.configuration(tmp_path / "root")
    assert "MessageTimeout=60\n" in text, "ParallelCluster's own"
    assert text.endswith(f"EpilogSlurmctld={tmp_path}/root/opt/trainyard/bin/slurm-job-end\n")
    assert "MessageTimeout=2" in slurm.nodes_file.read_text(), "which is included after it"

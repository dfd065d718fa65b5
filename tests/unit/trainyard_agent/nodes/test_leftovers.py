"""What is killed on a node before an attempt starts there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.agent import RUN

from trainyard_agent.nodes.leftovers import count_alive, kill_leftovers


def sleeper(**variables: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"],
        env=variables,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.real
def test_only_older_attempts_on_this_node_are_killed(tmp_path: Path) -> None:
    run = f"run-test{os.getpid()}"
    old = sleeper(TRAINYARD_RUN_ID=run, TRAINYARD_ATTEMPT="1", SLURMD_NODENAME="a")
    spared = [
        sleeper(TRAINYARD_RUN_ID=run, TRAINYARD_ATTEMPT="2", SLURMD_NODENAME="a"),
        sleeper(TRAINYARD_RUN_ID=run, TRAINYARD_ATTEMPT="1", SLURMD_NODENAME="b"),
        sleeper(TRAINYARD_RUN_ID=run + "x", TRAINYARD_ATTEMPT="1", SLURMD_NODENAME="a"),
    ]
    try:
        # Not any step daemon of a job 7: other tests on this machine have real ones.
        assert kill_leftovers(run, 1, ["7"], "a", node_root=str(tmp_path)) == 1
        assert old.wait(120) == -9
        assert [process.poll() for process in spared] == [None] * 3
    finally:
        for process in [old, *spared]:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def test_step_daemons_are_killed_by_job_and_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainyard_agent.nodes import leftovers

    ours, other = tmp_path / "nodes/i-1/root", tmp_path / "nodes/i-2/root"
    proc = tmp_path / "proc"

    def process(pid: int, title: bytes, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (proc / str(pid)).mkdir(parents=True)
        (proc / str(pid) / "cmdline").write_bytes(title)
        (proc / str(pid) / "environ").write_bytes(b"")
        (proc / str(pid) / "cwd").symlink_to(directory)

    process(1000001, b"slurmstepd: [7.batch]\0", ours / "var/spool")
    process(1000002, b"slurmstepd: [7.0]\0", other / "var/spool")
    process(1000003, b"slurmstepd: [71.0]\0", ours)
    process(1000004, b"/usr/sbin/slurmd\0", ours)
    assert leftovers.find(RUN, 1, {"7"}, "a", node_root=str(ours), proc=proc) == [1000001]
    assert sorted(leftovers.find(RUN, 1, {"7"}, "a", node_root=None, proc=proc)) == [
        1000001,
        1000002,
    ]


def test_only_what_runs_in_this_attempts_step_on_this_node_is_counted(tmp_path: Path) -> None:
    def process(pid: int, **variables: str) -> None:
        (tmp_path / str(pid)).mkdir()
        body = b"".join(f"{name}={value}\0".encode() for name, value in variables.items())
        (tmp_path / str(pid) / "environ").write_bytes(body)

    mine = {"TRAINYARD_RUN_ID": RUN, "TRAINYARD_ATTEMPT": "2", "SLURMD_NODENAME": "a"}
    process(1, **mine)  # the batch script, and srun in it
    process(2, **mine, SLURM_STEP_ID="0")
    process(3, **mine, SLURM_STEP_ID="0")
    process(4, **{**mine, "SLURMD_NODENAME": "b"}, SLURM_STEP_ID="0")
    process(5, **{**mine, "TRAINYARD_ATTEMPT": "1"}, SLURM_STEP_ID="0")
    process(6, **{**mine, "TRAINYARD_RUN_ID": RUN + "x"}, SLURM_STEP_ID="0")
    process(7)  # a zombie
    (tmp_path / "8").mkdir()  # it ended while we looked
    assert count_alive(RUN, 2, "a", proc=tmp_path) == 2
    assert count_alive(RUN, 3, "a", proc=tmp_path) == 0

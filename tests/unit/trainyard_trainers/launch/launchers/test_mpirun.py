"""Open MPI without ssh."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.launching import allocation

from trainyard_trainers.launch import launchers
from trainyard_trainers.launch.launchers import CannotLaunch, mpirun


# -- Open MPI without ssh ------------------------------------------------------------------------
def test_a_daemons_command_is_taken_out_of_the_line_for_ssh_and_no_shell_reads_it() -> None:
    line = [
        "PATH=/opt/mpi/bin:$PATH ; export PATH ;",
        " /opt/mpi/bin/orted",
        "-mca",
        "ess",
        '"env"',
        "-mca",
        "x",
        '"$(reboot) a"',
    ]
    assert mpirun.daemon_command(line) == [
        "/opt/mpi/bin/orted",
        "-mca",
        "ess",
        "env",
        "-mca",
        "x",
        "$(reboot) a",
    ]
    with pytest.raises(CannotLaunch, match="prted"):
        mpirun.daemon_command(["prted", "--prtemca"])


def test_a_daemon_is_handed_to_its_node_by_its_address(tmp_path: Path) -> None:
    given = allocation(tmp_path)
    (given.job.attempt_dir / "hosts").write_text(
        "".join(f"{name} {address}\n" for name, address in given.hosts.items())
    )
    (given.job.attempt_dir / "mpirun").mkdir()
    mpirun.hand_over(given.job.attempt_dir, "10.0.0.4", shlex.split("orted -mca ess env"))
    assert json.loads((given.job.attempt_dir / "mpirun/ip-10-0-0-4.json").read_text()) == {
        "argv": ["orted", "-mca", "ess", "env"]
    }


def test_open_mpi_sees_nothing_of_slurm_and_talks_over_loopback_where_all_nodes_are_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURMD_NODENAME", "ip-127-0-0-3")
    kept = mpirun.environment(tmp_path, tmp_path)
    assert "SLURM_JOB_ID" not in kept
    assert kept["SLURMD_NODENAME"] == "ip-127-0-0-3", "by it the agent finds what a job left behind"
    local, real = (
        mpirun.command(allocation(tmp_path, local=True)),
        mpirun.command(allocation(tmp_path)),
    )
    assert [word for word in local if word not in real] == [
        "oob_tcp_if_include",
        "lo",
        "btl_tcp_if_include",
        "lo",
    ]


def test_a_program_that_is_missing_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CannotLaunch, match="'mpirun' is not on this node's PATH; install Open MPI"):
        launchers.program("mpirun", "Open MPI")


#: What Open MPI writes for each node, and what the program itself gets as TMPDIR.
_PLACES = """
import json, os, pathlib
seen = {name: os.environ[name] for name in ("PMIX_SERVER_TMPDIR", "TMPDIR")}
seen["there"] = os.path.isdir(seen["PMIX_SERVER_TMPDIR"])
path = pathlib.Path(os.environ["TRAINYARD_ATTEMPT_DIR"], os.environ["TRAINYARD_NODE_NAME"])
path.with_suffix(".seen").write_text(json.dumps(seen))
"""


@pytest.mark.real
def test_open_mpis_files_are_below_no_directory_that_others_make_or_remove(tmp_path: Path) -> None:
    """Two daemons on one host made the same directory at once, and one of them failed."""
    attempt_dir, temporary = tmp_path / "run/attempts/1", tmp_path / "tmp"
    attempt_dir.mkdir(parents=True)
    (tmp_path / "run/work").mkdir()
    temporary.mkdir()
    (tmp_path / "run/work/places.py").write_text(_PLACES)
    job = {"runId": "run-x", "attempt": 1, "recipe": "mpirun", "program": ["places.py"]}
    (attempt_dir / "job.json").write_text(json.dumps(job))
    (attempt_dir / "hosts").write_text("n1 127.0.0.1\nn2 127.0.0.2\n")
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "TMPDIR": str(temporary)}
    launchers = [
        subprocess.Popen(
            [sys.executable, "-m", "trainyard_trainers.launch", str(attempt_dir)],
            env={
                **os.environ,
                **slurm,
                "SLURM_PROCID": str(rank),
                "SLURMD_NODENAME": f"n{rank + 1}",
            },
        )
        for rank in range(2)
    ]
    assert [launcher.wait(240) for launcher in launchers] == [0, 0]
    seen = [json.loads((attempt_dir / f"{node}.seen").read_text()) for node in ("n1", "n2")]
    assert all(one["there"] for one in seen)
    assert all(one["TMPDIR"] == str(temporary) for one in seen)
    own = [Path(one["PMIX_SERVER_TMPDIR"]).relative_to(temporary).parts[0] for one in seen]
    assert len(set(own)) == len(own), "a directory of each node's part"
    assert not list(temporary.iterdir()), "nothing is left"

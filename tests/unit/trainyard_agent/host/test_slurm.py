"""Parsing of Slurm's answers, from lines a real 22.05 printed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.agent import config

from trainyard_agent.host import slurm
from trainyard_agent.host.slurm import Slurm, SlurmError, clean_environment
from trainyard_agent.host.slurm_jobs import parse_job
from trainyard_agent.jobs.attempt_files import BadBundle, parse_bundle, render

JOB = (
    "JobId=1 JobName=run-1 UserId=root(0) Priority=4294901759 JobState=NODE_FAIL Reason=NodeDown "
    "Dependency=(null) Requeue=0 ExitCode=0:9 RunTime=00:00:01 "
    "NodeList=ip-127-23-0-[11-12],ip-10-0-0-7 BatchHost=ip-127-23-0-11 Comment=a b=c "
    "StdOut=/x y/job.log Power=\n"
)
NODES = (
    "NodeName=ip-127-23-0-11 Arch=x86_64 NodeAddr=127.0.0.1 NodeHostName=localhost Port=23001 "
    "Version=22.05.8 OS=Linux 6.18 #1 SMP @0 State=IDLE+DRAIN ThreadsPerCore=1 "
    "BootTime=2026-11-20T10:00:00 SlurmdStartTime=2026-11-20T10:01:00 "
    "Reason=trainyard: node lost [root@2026-11-20T23:07:50]\n"
    "NodeName=ip-10-0-0-2 NodeAddr=10.0.0.2 Version=25.11 State=DOWN* ThreadsPerCore=1 "
    "BootTime=2026-11-20T10:00:00 SlurmdStartTime=2026-11-20T10:01:00\n"
    "NodeName=ip-10-0-0-3 NodeAddr=10.0.0.3 State=IDLE+CLOUD BootTime=None SlurmdStartTime=None\n"
)


def test_a_job_is_read() -> None:
    job = parse_job(JOB)
    assert job is not None
    assert (job.name, job.state, job.exit_code, job.signal, job.ended) == (
        "run-1",
        "NODE_FAIL",
        0,
        9,
        True,
    )
    assert job.nodes == ("ip-127-23-0-11", "ip-127-23-0-12", "ip-10-0-0-7")
    assert parse_job("") is None


def test_nothing_of_the_agents_environment_reaches_a_job_but_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "TRAINYARD_NODE", "PYTHONPATH"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("TRAINYARD_LOCAL", "/state")
    monkeypatch.setenv("TMPDIR", "/state/tmp")
    found = clean_environment(config(tmp_path, slurm_conf="/x/slurm.conf"))
    assert set(found) == {"PATH", "HOME", "LANG", "TMPDIR", "TRAINYARD_LOCAL", "SLURM_CONF"}


def test_a_batch_script_finds_srun_where_hyperpod_keeps_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/sbin:/usr/bin")
    assert (
        clean_environment(config(tmp_path, slurm_bin="/opt/slurm/bin"))["PATH"]
        == "/opt/slurm/bin:/usr/sbin:/usr/bin"
    )


@pytest.mark.real
def test_a_slurm_command_that_hangs_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "scontrol"
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setattr(slurm, "COMMAND_SECONDS", 0.2)
    with pytest.raises(SlurmError, match="did not answer"):
        asyncio.run(Slurm(config(tmp_path, slurm_bin=str(tmp_path))).job("1"))


@pytest.mark.real
def test_a_command_that_ended_while_the_agent_stood_still_breaks_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "scontrol"
    fake.write_text("#!/bin/sh\nsleep 0.1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(slurm, "COMMAND_SECONDS", 0.2)

    async def story() -> None:
        asking = asyncio.create_task(Slurm(config(tmp_path, slurm_bin=str(tmp_path))).job("1"))
        await asyncio.sleep(0.05)
        time.sleep(0.5)  # nothing runs meanwhile, as after SIGSTOP
        with contextlib.suppress(SlurmError):
            assert await asking is None

    asyncio.run(story())


def test_a_job_that_slurm_refused_for_want_of_nodes_is_none_of_its_jobs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """sbatch fails then, but Slurm keeps a record of the name for some minutes."""
    answer = "8|FAILED|BadConstraints\n12|PENDING|BadConstraints\n9|FAILED|NonZeroExitCode\n"

    async def answered(self: Slurm, *argv: str) -> str:
        return answer

    monkeypatch.setattr(Slurm, "_run", answered)
    assert asyncio.run(Slurm(config(tmp_path)).jobs_named("run-1-1")) == ["9", "12"]


def test_paths_are_quoted_in_the_batch_script(tmp_path: Path) -> None:
    nasty = config(tmp_path, python="/opt/my env/bin/python; reboot")
    text = render("exec srun @PYTHON@ -m x @ATTEMPT_DIR@", nasty, tmp_path)
    assert text == f"exec srun '/opt/my env/bin/python; reboot' -m x {tmp_path}"


@given(st.binary(max_size=300))
def test_garbage_is_no_bundle(body: bytes) -> None:
    with pytest.raises(BadBundle):
        parse_bundle(body, "run-x", 1, "c")

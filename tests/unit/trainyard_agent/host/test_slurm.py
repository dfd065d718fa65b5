"""Parsing of Slurm's answers, from lines a real 22.05 printed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.agent import config

from trainyard_agent.host import slurm
from trainyard_agent.host.slurm import (
    Slurm,
    SlurmError,
    SlurmNode,
    clean_environment,
    compress,
    expand,
    parse_job,
    parse_nodes,
    workers,
)
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


def test_nodes_are_read() -> None:
    nodes = parse_nodes(NODES)
    assert (nodes["ip-127-23-0-11"].port, nodes["ip-127-23-0-11"].state) == (23001, "idle+drain")
    assert nodes["ip-127-23-0-11"].reason.startswith("trainyard: node lost")
    assert (nodes["ip-10-0-0-2"].port, nodes["ip-10-0-0-2"].state) == (6818, "down*")
    assert not nodes["ip-10-0-0-2"].serves
    assert [node.registered for node in nodes.values()] == [True, False, False]
    began = datetime(2026, 11, 20, 10, 1).timestamp()  # in this machine's zone, as scontrol does
    assert [node.slurmd_started for node in nodes.values()] == [began, began, None]


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        ("(null)", ()),
        ("a", ("a",)),
        ("a[1-3,7],b", ("a1", "a2", "a3", "a7", "b")),
        ("n[08-10]x", ("n08x", "n09x", "n10x")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
    ],
)
def test_host_lists_are_expanded(hosts: str, names: tuple[str, ...]) -> None:
    assert expand(hosts) == names


@given(st.text(max_size=200))
def test_no_output_of_slurm_breaks_the_parsers(text: str) -> None:
    parse_nodes(text)
    slurm.fields(text)


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


@given(
    st.lists(
        st.from_regex(r"ip-10-[0-3]-[0-9]{1,2}-[0-9]{1,3}|node[0-9]{0,4}|head", fullmatch=True),
        max_size=40,
    )
)
def test_a_compressed_host_list_is_expanded_to_the_same_names(names: list[str]) -> None:
    assert sorted(expand(compress(names))) == sorted(set(names))


def test_neighbours_are_compressed_as_slurm_writes_them() -> None:
    assert (
        compress(["ip-10-0-0-3", "ip-10-0-0-1", "ip-10-0-0-2", "ip-10-0-0-7", "ip-10-0-1-9"])
        == "ip-10-0-0-[1-3,7],ip-10-0-1-9"
    )


def test_the_largest_clusters_nodes_are_excluded_within_one_arguments_length() -> None:
    names = [f"ip-10-{n % 97}-{n % 256}-{n * 7 % 256}" for n in range(6758)]
    assert len(set(names)) > 6000
    assert len(compress(names)) < 128 * 1024


@pytest.mark.parametrize(
    ("state", "serves"),
    [
        ("idle", True), ("idle+cloud", True), ("mixed+cloud", True),
        ("allocated+cloud+completing", True), ("completing", True), ("idle+cloud+drain", False),
        ("down+cloud", False), ("down+cloud+fail+not_responding", False), ("idle*+cloud", False),
        ("idle+cloud+not_responding", False), ("idle+cloud+maintenance", False),
        ("idle+cloud+reboot_requested", False), ("idle+cloud+powered_down", False),
        ("down*", False), ("unknown", False), ("error", False), ("idle+drain", False),
    ],
)  # fmt: skip
def test_a_node_serves_by_its_base_state_whatever_harmless_flag_it_carries(
    state: str, serves: bool
) -> None:
    """Every HyperPod node is CLOUD, which Slurm prints as a flag."""
    assert SlurmNode("ip-10-0-0-1", state, "10.0.0.1", 6818).serves is serves


def test_a_login_node_is_no_worker_though_it_runs_slurmd_and_is_in_the_partition_of_all() -> None:
    shown = (
        "NodeName=ip-1 NodeAddr=10.0.0.1 State=IDLE+CLOUD Partitions=dev,main\n"
        "NodeName=ip-2 NodeAddr=10.0.0.2 State=IDLE+CLOUD Partitions=dev\n"
        "NodeName=ip-3 NodeAddr=10.0.0.3 State=DOWN+CLOUD Partitions=large,dev\n"
    )
    known = parse_nodes(shown)
    assert set(workers(known, ["large", "main"])) == {"ip-1", "ip-3"}
    assert set(workers(known, [])) == {"ip-1", "ip-2", "ip-3"}

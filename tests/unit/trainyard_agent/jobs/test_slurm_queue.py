"""Who is in a waiting job's way, from a real squeue's lines, and how its nodes are changed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.agent import RUN, config
from tests.support.agent_parts import JobParts, job_parts

from trainyard_agent import cli
from trainyard_agent.commands.server import CommandServer
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host.slurm import Slurm, SlurmError
from trainyard_agent.host.slurm_jobs import Job
from trainyard_agent.host.slurm_names import expand
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.slurm_queue import ahead, parse_queue
from trainyard_contracts.attempt_events import AttemptQueued
from trainyard_contracts.commands import Exclude, Excluded

QUEUE = """21|PENDING|root||main|4294901740|Resources
17|RUNNING|alice|ip-10-0-0-[2-3]|main|4294901744|None
18|RUNNING|bob|ip-10-0-0-9|other|4294901743|None
19|PENDING|carol||main|4294901742|Priority
20|PENDING|dave||main|4294901741|Dependency
22|PENDING|erin||main|4294901739|Priority
a line that does not fit
"""
NODES = {
    name: SlurmNode(name, "allocated", "10.0.0.1", 6818, "", (partition,))
    for name, partition in (
        ("ip-10-0-0-1", "main"),
        ("ip-10-0-0-2", "main"),
        ("ip-10-0-0-3", "main"),
        ("ip-10-0-0-9", "other"),
    )
}


def test_jobs_that_hold_nodes_of_its_partition_are_in_the_way_and_those_that_wait_before_it() -> (
    None
):
    found = ahead("21", parse_queue(QUEUE), NODES)
    assert [(job.job_id, job.user, job.nodes) for job in found] == [
        ("17", "alice", ["ip-10-0-0-2", "ip-10-0-0-3"]),
        ("19", "carol", []),
    ]
    assert ahead("99", parse_queue(QUEUE), NODES) == []


def test_a_job_that_holds_nodes_through_another_partition_is_in_the_way() -> None:
    queue = parse_queue(
        "21|PENDING|root||main|5|Resources\n17|RUNNING|alice|ip-10-0-0-2|dev|5|None\n"
    )
    assert [job.job_id for job in ahead("21", queue, NODES)] == ["17"]


def test_a_user_name_that_is_none_is_not_repeated() -> None:
    [job] = parse_queue("17|RUNNING|\x1b[2J|ip-10-0-0-2|main|5|None").values()
    assert job.user == "?"


class Queue:
    """A slurmctld in whose queue job 21 waits."""

    def __init__(self) -> None:
        self.text, self.asked, self.excluded = QUEUE, 0, []  # type: ignore[var-annotated]

    async def queue(self) -> str:
        self.asked += 1
        return self.text

    async def nodes(self) -> dict[str, SlurmNode]:
        return NODES

    async def job(self, job_id: str) -> Job:
        return Job(job_id, "PENDING", 0, 0, (), "Resources", f"{RUN}-1")

    async def exclude(self, job_id: str, nodes: list[str]) -> bool:
        self.excluded.append((job_id, nodes))
        return True


def submitted(tmp_path: Path) -> tuple[JobParts, Attempt, Any, list[Any]]:
    settings, slurm = config(tmp_path), Queue()
    reporter, told = Reporter(settings, Store(tmp_path / "outbox.sqlite")), []  # type: ignore[var-annotated]
    parts = job_parts(settings, reporter, slurm=slurm, table=SimpleNamespace(slurm_nodes=NODES))
    attempt = Attempt(RUN, 1, "submitted", tmp_path, job_id="21")
    parts.attempts.save(attempt)
    report = reporter.report
    reporter.report = lambda *events, change=None: (
        told.extend(events),
        report(*events, change=change),
    )[1]  # type: ignore[method-assign]
    return parts, attempt, slurm, told


def test_a_job_that_waits_is_told_once_and_again_when_others_are_in_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, attempt, slurm, told = submitted(tmp_path)
    clock = [attempt.followed_since]
    monkeypatch.setattr("trainyard_agent.jobs.queue_watch.time.monotonic", lambda: clock[0])

    def after(seconds: float) -> None:
        clock[0] += seconds
        assert asyncio.run(parts.follower.poll(attempt)) is False

    after(1.0)
    assert (told, slurm.asked) == ([], 0)
    after(3.0)
    [first] = told
    assert isinstance(first, AttemptQueued)
    assert (first.reason, [job.job_id for job in first.ahead]) == ("Resources", ["17", "19"])
    assert parts.attempts.samples()[0].pending_reason == "Resources"
    after(100.0)
    assert len(told) == 1
    slurm.text = QUEUE.replace("alice", "frank")
    after(11.0)
    assert told[1].ahead[0].user == "frank"
    slurm.text = QUEUE
    after(11.0)
    assert len(told) == 2


def test_a_queue_that_cannot_be_read_now_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, attempt, slurm, told = submitted(tmp_path)
    clock = [attempt.followed_since]
    monkeypatch.setattr("trainyard_agent.jobs.queue_watch.time.monotonic", lambda: clock[0])
    answer = slurm.queue

    async def refuse() -> str:
        raise SlurmError("squeue did not answer within 10 s; is slurmctld running?")

    for queue, expected in ((refuse, 0), (answer, 1)):
        slurm.queue = queue
        clock[0] += 11.0
        assert asyncio.run(parts.follower.poll(attempt)) is False
        assert len(told) == expected


def test_a_waiting_job_is_given_other_nodes_and_one_that_runs_is_left_alone(tmp_path: Path) -> None:
    parts, attempt, slurm, _ = submitted(tmp_path)
    control = parts.control
    wanted = ["ip-10-0-0-2", "ip-gone"]
    assert asyncio.run(control.exclude(RUN, 1, wanted)) == Excluded("21", "submitted", True)
    assert slurm.excluded == [("21", ["ip-10-0-0-2"])]
    attempt.state = "running"
    assert asyncio.run(control.exclude(RUN, 1, [])) == Excluded("21", "running", False)
    assert asyncio.run(control.exclude(RUN, 7, [])) == Excluded("", "unknown", False)
    assert len(slurm.excluded) == 1


@pytest.mark.parametrize(
    ("said", "waits"),
    [
        (None, True),
        ("Job is no longer pending execution for job 21", False),
        ("Invalid job id specified", False),
    ],
)
def test_slurms_answer_to_other_nodes_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, waits: bool
) -> None:
    calls = []

    async def run(*argv: str) -> str:
        calls.append(argv)
        if said is not None:
            raise SlurmError(said)
        return ""

    slurm = Slurm(config(tmp_path))
    monkeypatch.setattr(slurm, "_run", run)
    assert asyncio.run(slurm.exclude("21", ["a", "b"])) is waits
    assert calls == [("scontrol", "update", "jobid=21", "excnodelist=a,b")]


@pytest.mark.real
def test_a_waiting_job_may_exclude_as_many_nodes_as_the_largest_cluster_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"ip-10-255-{number // 250}-{number % 250}" for number in range(6758)]
    calls: list[str] = []

    async def run(*argv: str) -> str:
        calls.append(argv[-1])
        return ""

    slurm = Slurm(config(tmp_path))
    monkeypatch.setattr(slurm, "_run", run)

    async def exclude(given: Exclude) -> Excluded:
        return Excluded("21", "PENDING", await slurm.exclude("21", given.nodes))

    async def story() -> dict[str, Any]:
        server = CommandServer(str(tmp_path), {Exclude: exclude}, lambda: None)
        await server.start()
        monkeypatch.setattr(cli, "state_dir", lambda: str(tmp_path))
        try:
            return await asyncio.to_thread(
                cli.ask, Exclude("run-01j0000000000000000000000a", 1, tuple(names)).argv()[1:]
            )
        finally:
            server.close()

    assert asyncio.run(asyncio.wait_for(story(), 60)) == {
        "jobId": "21",
        "state": "PENDING",
        "waits": True,
    }
    [argument] = calls
    assert len(argument) < 1000
    assert sorted(expand(argument.removeprefix("excnodelist="))) == sorted(names)

"""An agent that dies at any line of a submission leaves one job of the run, in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.agent import RUN, config
from tests.support.agent_parts import JobParts, job_parts
from tests.support.waiting import eventually_async

from trainyard_agent.commands import job_control
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host.configuration import attempt_dir
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempt_files import job_name
from trainyard_agent.nodes.node_table import NodeTable
from trainyard_contracts.job_bundle import JobBundle

#: What a submission of attempt 2 asks of others, in this order.
CALLS = ("save", "kill", "files", "fence", "save", "nodes", "sbatch", "save", "scancel")
BUNDLE = JobBundle(
    run_id=RUN,
    attempt=2,
    cluster_name="c",
    batch_script="#!/bin/sh\n",
    nodes=1,
    processes_per_node=1,
    program=["x"],
)


class Died(BaseException):
    """The agent's process is gone."""


class Life:
    """One process of the agent, which dies before or after one of its calls."""

    def __init__(self, fatal: int | None = None, after: bool = False) -> None:
        self._fatal, self._after = fatal, after
        self.calls: list[str] = []
        self.over = False

    def call(self, name: str, work: Callable[[], Any]) -> Any:
        if self.over:
            raise Died
        self.calls.append(name)
        fatal = len(self.calls) - 1 == self._fatal
        self.over = fatal and not self._after
        if self.over:
            raise Died
        answer = work()
        self.over = fatal
        if fatal:
            raise Died
        return answer


class World:
    """Slurm and the disk, which outlive the agent. Job 100 of attempt 1 runs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.names = {"100": job_name(RUN, 1)}
        self.live = ["100"]
        self.life = Life()
        self.killed: list[int] = []

    async def nodes(self) -> dict[str, SlurmNode]:
        node = SlurmNode("ip-1", "idle", "10.0.0.1", 6818)
        return dict(self.life.call("nodes", lambda: {"ip-1": node}))

    async def submit(self, options: list[str], script: str, environment: dict[str, str]) -> str:
        def sbatch() -> str:
            job = str(100 + len(self.names))
            names = [option for option in options if option.startswith("--job-name=")]
            self.names[job] = names[0].removeprefix("--job-name=")
            self.live.append(job)
            return job

        return str(self.life.call("sbatch", sbatch))

    async def jobs_named(self, name: str) -> list[str]:
        for _ in range(10):  # what the agent has to do elsewhere comes first
            await asyncio.sleep(0)
        return [job for job, named in self.names.items() if named == name]

    async def job(self, job_id: str) -> None:
        await asyncio.Event().wait()

    async def cancel(self, job_id: str, *options: str) -> None:
        self.life.call("scancel", lambda: job_id in self.live and self.live.remove(job_id))

    async def kill(self, run_id: str, number: int, jobs: list[str]) -> dict[str, int]:
        self.life.call("kill", lambda: self.killed.append(number))
        return {}

    def start(self) -> JobParts:
        """An agent with what is on the disk."""
        settings = config(self.directory)
        store = Store(self.directory / "outbox.sqlite")
        reporter = Reporter(settings, store)
        s3 = SimpleNamespace(get=lambda location: BUNDLE.model_dump_json(by_alias=True).encode())
        table = NodeTable(reporter)
        return job_parts(settings, reporter, slurm=self, table=table, link=self, s3=s3)

    async def live_is(self, *jobs: str) -> None:
        await eventually_async(f"only {jobs} live", lambda: self.live == [*jobs])


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World(tmp_path)
    save(world, 1, "running", "100")
    counted = ((Store, "_transact", "save"),)
    counted += ((job_control, "write_attempt", "files"), (job_control, "raise_fence", "fence"))
    for place, name, called in counted:
        real = getattr(place, name)

        def instead(*given: Any, _real: Any = real, _called: str = called) -> Any:
            return world.life.call(_called, lambda: _real(*given))

        monkeypatch.setattr(place, name, instead)
    # What opens and closes the store is not a step of a submission.
    monkeypatch.setattr(Store, "_claim_room", lambda store: None)
    return world


def save(world: World, number: int, state: Any, job_id: str) -> None:
    directory = attempt_dir(config(world.directory), RUN, number)
    parts = world.start()
    parts.attempts.save(Attempt(RUN, number, state, directory, job_id=job_id, nodes=("ip-1",)))


def run(story: Coroutine[Any, Any, None]) -> None:
    async def quietly() -> None:
        # A task that dies with the process is not an error to be told.
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        await story

    asyncio.run(quietly())


async def submit(parts: JobParts) -> None:
    await parts.control.submit(RUN, 2, f"s3://data/runs/{RUN}/attempts/2/bundle.json")


def dies_submitting(world: World, fatal: int, after: bool) -> None:
    """The agent dies at this call of a submission; the next one has a life of its own."""

    async def story() -> None:
        task = asyncio.create_task(submit(world.start()))
        await eventually_async("the agent dies", lambda: world.life.over)
        await asyncio.gather(task, return_exceptions=True)

    world.life = Life(fatal, after)
    run(story())
    world.life = Life()


def test_a_submission_makes_these_calls(world: World) -> None:
    async def story() -> None:
        await submit(world.start())
        await world.live_is("101")

    run(story())
    assert tuple(world.life.calls) == CALLS


@pytest.mark.parametrize("repeated", [False, True], ids=["restart", "repeated submit"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fatal", range(len(CALLS)), ids=lambda n: f"{n} {CALLS[n]}")
def test_one_job_is_left_wherever_the_agent_dies(
    world: World, fatal: int, after: bool, repeated: bool
) -> None:
    async def second() -> None:
        parts = world.start()
        parts.control.resume()
        if repeated:
            await submit(parts)
        await world.live_is(list(world.names)[-1])

    dies_submitting(world, fatal, after)
    run(second())
    handed_in = repeated or (fatal, after) >= (CALLS.index("sbatch"), True)
    assert list(world.names.values()) == [job_name(RUN, n) for n in (1, 2)[: 1 + handed_in]]


def test_a_job_that_is_found_after_a_newer_one_was_handed_in_is_ended(world: World) -> None:
    world.names["101"] = job_name(RUN, 2)
    world.live.append("101")
    save(world, 1, "submitting", "")
    save(world, 2, "running", "101")

    async def story() -> None:
        world.start().control.resume()
        await world.live_is("101")

    run(story())


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fatal", range(len(CALLS)), ids=lambda n: f"{n} {CALLS[n]}")
def test_no_job_is_left_of_a_run_that_is_cancelled_wherever_the_agent_died(
    world: World, fatal: int, after: bool
) -> None:
    async def second() -> None:
        parts = world.start()
        parts.control.resume()
        assert (await parts.control.cancel(RUN)).state == "cancelling"
        await world.live_is()

    dies_submitting(world, fatal, after)
    run(second())

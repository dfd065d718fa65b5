"""The next agent finishes a submission that was cut short: it finds lost nodes and the job."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.support.agent import RUN, config
from tests.support.agent_parts import job_parts

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host.configuration import attempt_dir
from trainyard_agent.host.slurm import SlurmNode
from trainyard_agent.jobs.attempts import Attempt
from trainyard_agent.nodes.node_table import NodeTable
from trainyard_contracts.files import JobBundle


class Slurm:
    """Has the job that the interrupted agent submitted."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    async def nodes(self) -> dict[str, SlurmNode]:
        return {name: SlurmNode(name, "allocated", "10.0.0.1", 6818) for name in ("ip-1", "ip-2")}

    async def set_node(self, name: str, state: str, reason: str | None = None) -> None:
        self.calls.append(("set", name, state))

    async def jobs_named(self, name: str) -> list[str]:
        self.calls.append(("look for", name))
        return ["42"]

    async def job(self, job_id: str) -> None:
        await asyncio.sleep(60)


class ServingNodes(NodeTable):
    """Those that serve are the test's."""

    def __init__(self, reporter: Reporter, serving: tuple[str, ...]) -> None:
        super().__init__(reporter)
        self._serving = serving

    def serving(self, name: str) -> bool:
        return name in self._serving


def after_a_crash(
    directory: Path, *serving: str, remembered: bool = True
) -> tuple[list[tuple[str, ...]], Attempt]:
    """What a new agent does about attempt 2, which the old agent was submitting; ip-1 is lost."""
    settings = config(directory)
    attempt = Attempt(RUN, 2, "submitting", attempt_dir(settings, RUN, 2))
    attempt.directory.mkdir(parents=True)
    bundle = JobBundle(
        run_id=RUN,
        attempt=2,
        cluster_name="c",
        batch_script="",
        nodes=1,
        processes_per_node=1,
        program=["x"],
        down_nodes=["ip-1"],
    )
    (attempt.directory / "bundle.json").write_text(bundle.model_dump_json(by_alias=True))

    async def story() -> list[tuple[str, ...]]:
        slurm: Any = Slurm()
        table = ServingNodes(Reporter(settings, Store(directory / "nodes.sqlite")), serving)
        reporter = Reporter(settings, Store(directory / "outbox.sqlite"))
        parts = job_parts(settings, reporter, slurm=slurm, table=table)
        attempts = parts.attempts
        if remembered:
            attempts.save(attempt)
        parts.control.resume()
        while attempts.known[RUN, 2].state == "submitting":
            await asyncio.sleep(0)
        attempt.state, attempt.job_id = attempts.known[RUN, 2].state, attempts.known[RUN, 2].job_id
        return list(slurm.calls)

    return asyncio.run(asyncio.wait_for(story(), 60)), attempt


def test_its_lost_node_is_set_down_before_its_job_is_taken_up(tmp_path: Path) -> None:
    calls, attempt = after_a_crash(tmp_path)
    assert calls[:2] == [("set", "ip-1", "down"), ("look for", f"{RUN}-2")]
    assert (attempt.state, attempt.job_id) == ("submitted", "42")


def test_a_node_that_serves_again_by_then_stays_up(tmp_path: Path) -> None:
    calls, attempt = after_a_crash(tmp_path, "ip-1")
    assert calls[:1] == [("look for", f"{RUN}-2")]
    assert attempt.state == "submitted"


def test_an_agent_that_lost_its_memory_finds_the_job_of_each_runs_newest_attempt(
    tmp_path: Path,
) -> None:
    older = attempt_dir(config(tmp_path), RUN, 1)
    older.mkdir(parents=True)
    (older / "bundle.json").write_text("{}")
    calls, attempt = after_a_crash(tmp_path, "ip-1", remembered=False)
    assert calls == [("look for", f"{RUN}-2")]
    assert (attempt.state, attempt.job_id) == ("submitted", "42")

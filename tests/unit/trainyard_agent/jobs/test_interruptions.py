"""A job leaves a node that EC2 takes back: a checkpoint, then the loss is told, then its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.agent import RUN, config

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host.slurm import SlurmError
from trainyard_agent.jobs import interruptions
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.interruptions import Interruptions
from trainyard_agent.nodes.node_table import Node, NodeTable
from trainyard_contracts.node_events import NodeLost

NAME = "spot-dy-nodes-1"
OURS = ["-m", "trainyard_trainers.ddp"]


class World:
    """Slurm and checkpoints; `said` is all that happened, in its order."""

    def __init__(self, directory: Path) -> None:
        given = config(directory, nodes_come_and_go=True)
        reporter = Reporter(given, Store(directory / "outbox.sqlite"))
        self.said: list[Any] = []
        report = reporter.report

        def noted(*events: Any, change: Any = None) -> None:
            self.said.extend(events)
            report(*events, change=change)

        reporter.report = noted  # type: ignore[method-assign]
        self.table, self.attempts = NodeTable(reporter, come_and_go=True), Attempts(given, reporter)
        self.table.nodes[NAME] = Node(NAME, "linked", "i-1", connected=True)
        self.leaving = Interruptions(self, reporter, self.attempts, self.table)  # type: ignore[arg-type]
        self.leaving.ask_for_checkpoints(lambda run: self.checkpoints, self.look)
        self.checkpoints: list[dict[str, Any]] = []
        self.on_signal: Callable[[str], None] = lambda word: None

    def job(self, step: int | None = 7, program: list[str] | None = None) -> Attempt:
        attempt = Attempt(RUN, 1, "running", Path("/nowhere"), "", "12", (NAME, "spot-dy-nodes-2"))
        attempt.progress = SimpleNamespace(step=step) if step is not None else None  # type: ignore[assignment]
        attempt.bundle = SimpleNamespace(program=program or OURS)  # type: ignore[assignment]
        self.attempts.known[RUN, 1] = attempt
        return attempt

    async def look(self, attempt: Attempt) -> None:
        return

    async def cancel(self, job_id: str, *options: str) -> None:
        self.said.append((job_id, *options))
        self.on_signal(options[0].removeprefix("--signal="))

    async def set_node(self, name: str, state: str, reason: str | None = None) -> None:
        self.said.append((name, state))

    def order(self) -> list[Any]:
        return [type(one) if isinstance(one, NodeLost) else one for one in self.said]


def at(seconds: float = 120) -> str:
    return f"{datetime.now(timezone.utc) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


def test_a_checkpoint_then_the_drain_and_the_loss_then_the_stop(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path)
        attempt = world.job()

        def answered(word: str) -> None:
            if word == "USR2":
                world.checkpoints = [{"step": 5, "status": "whole"}, {"step": 8, "status": "whole"}]
            if word == "TERM":
                attempt.done.set()

        world.on_signal = answered
        world.leaving.noticed(NAME, "i-1", at())
        world.leaving.noticed(NAME, "i-1", at())  # with the next beat
        await world.leaving.settled(RUN)
        assert world.order() == [
            ("12", "--signal=USR2"),
            (NAME, "drain"),
            NodeLost,
            ("12", "--signal=TERM"),
        ]
        lost = world.said[2]
        assert (lost.about.node, lost.run_id, lost.attempt) == (NAME, RUN, 1)
        assert lost.taken_back_at is not None
        assert world.table.nodes[NAME].state == "lost"

    asyncio.run(story())


def test_a_checkpoint_that_does_not_come_does_not_hold_the_job_until_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interruptions, "STOP_SECONDS", 0.05)

    async def story() -> None:
        world = World(tmp_path)
        world.job()
        world.checkpoints = [{"step": 9, "status": "rejected"}, {"step": 3, "status": "whole"}]
        world.leaving.noticed(NAME, "i-1", at(-1))
        await world.leaving._going[RUN]
        assert world.order()[-2:] == [NodeLost, ("12", "--signal=TERM")]

    asyncio.run(story())


def test_a_job_without_a_step_is_not_asked_for_a_checkpoint(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path)
        attempt = world.job(step=None)
        world.on_signal = lambda word: attempt.done.set()
        world.leaving.noticed(NAME, "i-1", at())
        await world.leaving.settled(RUN)
        assert ("12", "--signal=USR2") not in world.said

    asyncio.run(story())


def test_a_program_that_is_not_ours_is_asked_to_stop_at_once(tmp_path: Path) -> None:
    """SIGUSR2 ends a program that knows nothing of it."""

    async def story() -> None:
        world = World(tmp_path)
        attempt = world.job(program=["train.py"])
        world.on_signal = lambda word: attempt.done.set()
        world.leaving.noticed(NAME, "i-1", at())
        await world.leaving.settled(RUN)
        assert world.order() == [(NAME, "drain"), NodeLost, ("12", "--signal=TERM")]

    asyncio.run(story())


def test_a_node_without_a_job_of_ours_is_drained_and_told(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path)
        world.leaving.noticed(NAME, "i-1", "no time")
        await asyncio.gather(*world.leaving._background.tasks)
        assert world.order() == [(NAME, "drain"), NodeLost]
        assert world.said[-1].run_id is None

    asyncio.run(story())


def test_a_slurm_that_does_not_answer_keeps_nobody_from_telling_the_loss(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path)
        attempt = world.job()

        def refuses(word: str) -> None:
            attempt.done.set()
            raise SlurmError("slurmctld does not answer")

        world.on_signal = refuses
        world.leaving.noticed(NAME, "i-1", at())
        await world.leaving.settled(RUN)
        assert NodeLost in world.order()

    asyncio.run(story())

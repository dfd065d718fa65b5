"""A run is synced at its interval, failures are told once, and exports come first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN, commit, config
from tests.support.agent_parts import play
from tests.support.agent_s3 import AgentS3
from tests.unit.trainyard_agent.jobs.test_work import bundle

from trainyard_agent.checkpoints import sync_pass, syncing
from trainyard_agent.checkpoints.syncing import Syncing
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.host.configuration import run_dir
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts
from trainyard_contracts.bundle_parts import SyncOrder
from trainyard_contracts.event_bases import AgentEvent
from trainyard_contracts.export_manifest import ExportManifest

PREFIX = f"sync/c/{RUN}"


class World:
    """One run that trains, and the part of the agent that syncs it."""

    def __init__(self, directory: Path) -> None:
        self.config = config(directory)
        self.store = Store(directory / "outbox.sqlite")
        self.reporter = Reporter(self.config, self.store)
        self.told: list[AgentEvent] = []
        real = self.reporter.report

        def report(*events: AgentEvent, **how: Any) -> None:
            self.told += events
            real(*events, **how)

        self.reporter.report = report  # type: ignore[method-assign]
        self.attempts = Attempts(self.config, self.reporter)
        self.s3 = AgentS3()
        self.root = run_dir(self.config, RUN)
        self.syncing = self.made()

    def made(self) -> Syncing:
        s3: Any = self.s3
        return Syncing(self.config, self.attempts, self.reporter, s3)

    def train(self, number: int = 1, *, every: float = 5.0) -> Attempt:
        order = SyncOrder(every_seconds=every, prefix=PREFIX)
        given = bundle(number, sync=order)
        directory = self.root / "attempts" / str(number)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "bundle.json").write_text(given.model_dump_json(by_alias=True))
        (self.root / "fence").write_text(f"{number}\n")
        attempt = Attempt(RUN, number, "running", directory, job_id="7", bundle=given)
        self.attempts.save(attempt)
        return attempt

    async def a_pass(self, attempt: Attempt) -> None:
        """Let the next pass be due, and end."""
        self.syncing._consider(attempt)
        run = self.syncing._runs[attempt.run_id]
        run.due = 0.0
        self.syncing._consider(attempt)
        if run.passing is not None:
            await asyncio.wait({run.passing})

    def events(self) -> list[str]:
        return [type(event).__name__ for event in self.told]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(sync_pass, "_FIRST_PAUSE", 0.0)
    return World(tmp_path)


def test_the_first_copy_is_told_and_no_other(world: World) -> None:
    async def story() -> None:
        attempt = world.train()
        commit(world.root, 10)
        await world.a_pass(attempt)
        assert world.events() == ["ResultsSynced"]
        assert (world.told[0].last_step, world.told[0].objects) == (10, 2)  # type: ignore[attr-defined]
        await world.a_pass(attempt)
        world.syncing = world.made()  # after a restart
        await world.a_pass(attempt)
        assert world.events() == ["ResultsSynced"]
        assert f"{PREFIX}/latest.json" in world.s3.objects

    play(story())


def test_the_first_copy_is_made_an_interval_after_the_start_and_never_twice_at_once(
    world: World,
) -> None:
    async def story() -> None:
        attempt = world.train(every=1000.0)
        world.syncing._consider(attempt)
        run = world.syncing._runs[RUN]
        assert run.passing is None
        assert run.due == pytest.approx(time.monotonic() + 1000.0, abs=30.0)
        run.due = 0.0
        world.syncing._consider(attempt)
        first = run.passing
        world.syncing._consider(attempt)
        assert run.passing is first
        assert first is not None
        await asyncio.wait({first})
        assert run.due >= time.monotonic() + 900.0

    play(story())


def test_a_run_that_does_not_ask_for_it_is_not_synced(world: World) -> None:
    async def story() -> None:
        attempt = world.train()
        attempt.bundle = bundle(1)
        world.syncing._consider(attempt)
        assert not world.syncing._runs

    play(story())


def denied(verb: str, key: str) -> None:
    if verb == "put":
        raise Refused(403, "AccessDenied")


def test_a_failure_is_told_once_and_its_end_too(world: World) -> None:
    async def story() -> None:
        attempt = world.train()
        (world.root / "output").mkdir()
        (world.root / "output/a").write_text("a")
        world.s3.before = denied
        for _ in range(3):
            await world.a_pass(attempt)
        assert world.events() == ["SyncFailed"]
        failed: Any = world.told[0]
        assert (failed.trouble, failed.behind_seconds) == ("denied", None)
        assert "AccessDenied" in failed.reason
        world.s3.before = lambda verb, key: None
        await world.a_pass(attempt)
        await world.a_pass(attempt)
        assert world.events()[1:].count("ResultsSynced") == len(world.events()) - 1 >= 1
        world.s3.before = denied
        (world.root / "output/a").write_text("other")
        await world.a_pass(attempt)
        again: Any = world.told[-1]
        assert again.trouble == "denied"
        assert again.behind_seconds is not None

    play(story())


def test_s3_that_is_away_for_a_moment_is_not_told_and_waited_for_longer_each_time(
    world: World,
) -> None:
    def away(verb: str, key: str) -> None:
        raise Unreachable("no route")

    async def story() -> None:
        attempt, pauses = world.train(), []
        world.s3.before = away
        for _ in range(syncing.UNREACHABLE_TOLD):
            assert world.events() == []
            await world.a_pass(attempt)
            pauses.append(world.syncing._runs[RUN].due - time.monotonic())
        assert world.events() == ["SyncFailed"]
        assert pauses == sorted(pauses)
        assert pauses[-1] > 2 * pauses[0]

    play(story())


def test_an_export_ends_a_pass_and_no_other_begins_until_it_is_done(world: World) -> None:
    async def story() -> None:
        attempt = world.train()
        commit(world.root, 10, body=b"x" * 1000)
        await world.a_pass(attempt)
        (world.root / "output").mkdir()
        (world.root / "output/late").write_text("late")
        entered, holds = asyncio.Event(), []
        loop = asyncio.get_running_loop()

        def slow(verb: str, key: str) -> None:
            if verb == "put" and key.rpartition("/")[2].isalnum():
                loop.call_soon_threadsafe(entered.set)
                world.syncing._runs[RUN].stop.wait(30)

        world.s3.before = slow
        world.syncing._runs[RUN].due = 0.0
        world.syncing._consider(attempt)
        await entered.wait()
        holds.append(await world.syncing.hold(RUN))
        world.s3.before = lambda verb, key: None
        assert world.syncing._runs[RUN].passing is None
        assert len(holds[0]) == 2, "what is in S3 by now needs not be sent again"
        assert all(at.key.startswith(PREFIX) for at in holds[0].values())
        world.syncing._runs[RUN].due = 0.0
        world.syncing._consider(attempt)
        assert world.syncing._runs[RUN].passing is None
        await world.syncing.release(RUN, None)
        world.syncing._consider(attempt)
        assert world.syncing._runs[RUN].passing is not None

    play(story())


def exported(world: World, *, step: int | None, files: int = 0) -> ExportManifest:
    return ExportManifest(
        run_id=RUN,
        created_at="2026-01-01T00:00:00Z",  # type: ignore[arg-type]
        objects=[],
        last_step=step,
        output_files=files,
    )


def test_a_sync_of_reported_numbers_alone_is_deleted_after_an_export_without_results(
    world: World,
) -> None:
    async def story() -> None:
        attempt = world.train()
        commit(world.root, 10)
        (world.root / "attempts/1/steps.jsonl").write_text('{"step": 1, "loss": 1.0}\n')
        await world.a_pass(attempt)
        assert world.s3.objects
        world.attempts.save(attempt, state="ended")
        await world.syncing.hold(RUN)
        await world.syncing.release(RUN, exported(world, step=10))
        assert not world.s3.objects

    play(story())


@pytest.mark.parametrize(
    ("manifest", "stays"),
    [
        (lambda world: exported(world, step=10, files=1), False),
        (lambda world: exported(world, step=None, files=1), True),
        (lambda world: exported(world, step=10), True),
        (lambda world: None, True),
    ],
)
def test_a_sync_is_deleted_only_when_the_last_export_holds_the_same(
    world: World, manifest: Callable[[World], ExportManifest | None], stays: bool
) -> None:
    async def story() -> None:
        attempt = world.train()
        commit(world.root, 10)
        (world.root / "output").mkdir()
        (world.root / "output/a").write_text("a")
        await world.a_pass(attempt)
        world.attempts.save(attempt, state="ended")
        await world.syncing.hold(RUN)
        await world.syncing.release(RUN, manifest(world))
        assert bool(world.s3.objects) == stays

    play(story())


def test_an_export_while_the_run_trains_leaves_the_sync(world: World) -> None:
    async def story() -> None:
        attempt = world.train()
        commit(world.root, 10)
        await world.a_pass(attempt)
        await world.syncing.hold(RUN)
        await world.syncing.release(RUN, exported(world, step=10))
        assert world.s3.objects

    play(story())


def test_an_agent_that_is_superseded_stops_for_that_attempt(world: World) -> None:
    async def story() -> None:
        attempt = world.train()
        commit(world.root, 10)
        await world.a_pass(attempt)
        (world.root / "fence").write_text("2\n")
        await world.a_pass(attempt)
        assert world.syncing._runs[RUN].over == 1
        assert world.events() == ["ResultsSynced"]

    play(story())


def test_what_a_dead_agent_left_of_a_sync_is_deleted_with_the_next_end_of_the_export(
    world: World,
) -> None:
    async def story() -> None:
        attempt = world.train()
        world.attempts.save(attempt, state="ended")
        world.s3.objects[f"{PREFIX}/{'ab' * 32}"] = b"left"
        await world.syncing.hold(RUN)
        await world.syncing.release(RUN, exported(world, step=10))
        assert world.s3.objects == {}

    play(story())


def test_a_run_that_ended_is_forgotten_after_a_while(world: World) -> None:
    async def story() -> None:
        attempt = world.train()
        await world.a_pass(attempt)
        world.syncing._forget({RUN})
        world.syncing._runs[RUN].due = time.monotonic() - 1e6
        world.syncing._forget({RUN})
        assert RUN in world.syncing._runs
        world.syncing._forget(set())
        assert not world.syncing._runs

    play(story())

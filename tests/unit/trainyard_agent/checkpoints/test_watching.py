"""The agent's part: copies are reported, torn ones told once, and put back before an attempt."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import RUN, config
from tests.support.foreign import archive, bundle, hugging_face, step_of_archive

from trainyard_agent.checkpoints import watching
from trainyard_agent.checkpoints.checkpoints import Checkpoints
from trainyard_agent.checkpoints.export_plan import make_plan
from trainyard_agent.checkpoints.own_files import working
from trainyard_agent.checkpoints.watching import Watching
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.events.store import Store
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.progress import note_step
from trainyard_contracts.progress_file import Progress


class Agent:
    """One life of the controller's agent, on a store and a run's directory that outlive it."""

    def __init__(self, directory: Path, keep: int = 3, **watch: Any) -> None:
        settings = config(directory)
        self.root = directory / "shared/trainyard/runs" / RUN
        (self.root / "work").mkdir(parents=True, exist_ok=True)
        self.store = Store(directory / "outbox.sqlite")
        self.reporter = Reporter(settings, self.store)
        self.attempts = Attempts(settings, self.reporter)
        self.watching = Watching(settings, self.attempts, self.reporter)
        self.checkpoints = Checkpoints(settings, self.attempts, self.reporter)
        self._watch: dict[str, Any] = {"keep": keep, **watch}

    def attempt(self, number: int, state: Any = "running", step: int | None = None) -> Attempt:
        attempt = Attempt(RUN, number, state, self.root / "attempts" / str(number))
        attempt.bundle = bundle(number, **self._watch)
        if step is not None:
            note_step(attempt, Progress(step=step, at=1), 1.0)
        self.attempts.save(attempt)
        return attempt

    async def look(self, attempt: Attempt) -> None:
        self.watching._run(RUN).due = 0.0
        self.watching._run(RUN).looks._tries.clear()
        await self.watching.look_at(attempt)
        await self.checkpoints.look_at(attempt)

    async def end(self, attempt: Attempt, *, well: bool = False) -> None:
        self.attempts.save(attempt, state="ended")
        await self.watching.finish(attempt, well=well)
        await self.checkpoints.look_at(attempt)

    async def next(self, number: int) -> Attempt:
        attempt = self.attempt(number, "intent")
        assert attempt.bundle is not None
        await self.watching.before(attempt, attempt.bundle)
        self.attempts.save(attempt, state="running")
        return attempt

    def told(self) -> list[dict[str, Any]]:
        rows = self.store.connection.execute("SELECT kind, body FROM outbox ORDER BY seq")
        return [{"kind": kind, **json.loads(body)} for kind, body in rows]

    def kinds(self) -> list[str]:
        return [one["kind"] for one in self.told()]

    def close(self) -> None:
        self.watching.close()
        self.checkpoints.close()
        self.store.close()


def test_copies_are_reported_as_checkpoints_pruned_and_exported(tmp_path: Path) -> None:
    agent = Agent(tmp_path, keep=2)
    attempt = agent.attempt(1, step=40)

    async def story() -> None:
        for step in (1, 2, 3):
            (agent.root / "work/snapshot.pt").write_bytes(archive(step))
            await agent.look(attempt)

    asyncio.run(story())
    first, *_, last = agent.told()
    assert agent.kinds() == ["CheckpointCommitted"] * 3 + ["CheckpointPruned"]
    assert (first["source"], first["step"], first["counted"]) == ("work/snapshot.pt", 40, False)
    assert last["path"] == first["path"]
    plan = make_plan(agent.root, RUN, "checkpoints", "all")
    assert len(plan.steps) == 2
    assert plan.last_step == 40
    assert all(item.key.startswith("watched/work+snapshot.pt-") for item in plan.items)
    assert len(make_plan(agent.root, RUN, "checkpoints", "last").steps) == 1
    assert make_plan(agent.root, RUN, "checkpoints", "none").items == ()
    assert [file.key for file in working(agent.root, "checkpoints").files] == [
        "working/snapshot.pt"
    ]
    agent.close()


def test_a_torn_one_is_told_once_at_the_end_and_put_back_before_the_next_attempt(
    tmp_path: Path,
) -> None:
    agent = Agent(tmp_path)
    snapshot = agent.root / "work/snapshot.pt"

    async def story() -> None:
        attempt = agent.attempt(1, step=40)
        snapshot.write_bytes(archive(1))
        await agent.look(attempt)
        snapshot.write_bytes(archive(2)[:-50])
        await agent.look(attempt)
        assert agent.kinds() == ["CheckpointCommitted"], "it may still be written"
        await agent.end(attempt)
        await agent.end(attempt)
        await agent.next(2)

    asyncio.run(story())
    assert agent.kinds() == ["CheckpointCommitted", "CheckpointRejected", "CheckpointRestored"]
    committed, rejected, restored = agent.told()
    assert (rejected["path"], rejected["attempt"]) == ("work/snapshot.pt", 1)
    assert (restored["attempt"], restored["step"]) == (2, 40)
    assert restored["path"] == committed["path"]
    assert (agent.root / restored["setAside"]).exists()
    assert step_of_archive(snapshot) == 1
    agent.close()


def test_the_next_attempt_may_be_submitted_before_the_end_of_the_last_is_known(
    tmp_path: Path,
) -> None:
    agent = Agent(tmp_path, pattern="checkpoint-*")

    async def story() -> None:
        attempt = agent.attempt(1)
        hugging_face(agent.root / "work/checkpoint-5", 5)
        (hugging_face(agent.root / "work/checkpoint-6", 6) / "trainer_state.json").unlink()
        await agent.next(2)
        # Its program writes by now, so the end of the older one is no time to judge.
        (hugging_face(agent.root / "work/checkpoint-7", 7) / "trainer_state.json").unlink()
        await agent.end(attempt)

    asyncio.run(story())
    assert agent.kinds() == ["CheckpointRejected", "CheckpointRestored", "CheckpointCommitted"]
    assert agent.told()[2]["step"] == 5, "what was whole was copied before"
    agent.close()


def test_a_new_agent_goes_on_where_the_old_one_was(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    (agent.root / "work/snapshot.pt").write_bytes(archive(1))
    asyncio.run(agent.look(agent.attempt(1)))
    agent.close()
    agent = Agent(tmp_path)
    asyncio.run(agent.look(agent.attempt(1)))
    assert agent.kinds() == ["CheckpointCommitted"]
    assert agent.told()[0]["counted"]
    agent.close()


def test_of_a_copy_without_a_known_step_it_is_told_that_it_is_only_counted(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    snapshot = agent.root / "work/snapshot.pt"
    snapshot.write_bytes(archive(1))
    asyncio.run(agent.look(agent.attempt(1)))
    snapshot.unlink()
    asyncio.run(agent.next(2))
    assert agent.kinds() == ["CheckpointCommitted", "CheckpointRestored"]
    assert (agent.told()[1]["step"], agent.told()[1]["counted"]) == (1, True)
    [copy] = (agent.root / "watched").glob("*/save-*")
    (copy / "work/snapshot.pt").write_bytes(b"something else")
    asyncio.run(agent.look(agent.attempts.known[RUN, 2]))
    rejected = [one for one in agent.told() if one["kind"] == "CheckpointRejected"]
    assert [one["counted"] for one in rejected] == [True]
    agent.close()


def test_a_pattern_that_fits_nothing_is_told_once_after_an_hour(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    attempt = agent.attempt(1)

    async def story() -> None:
        await agent.look(attempt)
        assert agent.kinds() == []
        attempt.running_since -= watching.NOTHING_SECONDS
        await agent.look(attempt)
        await agent.look(attempt)

    asyncio.run(story())
    (warned,) = agent.told()
    assert warned["kind"] == "WatchWarned"
    assert "Nothing was saved as 'snapshot.pt' in an hour" in warned["reason"]
    agent.close()


def test_a_pattern_that_fitted_nothing_until_the_end_is_told(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    attempt = agent.attempt(1)
    asyncio.run(agent.end(attempt, well=True))
    (warned,) = agent.told()
    assert "Nothing was saved as 'snapshot.pt' until the program had ended" in warned["reason"]
    agent.close()


def test_a_run_that_asks_for_nothing_is_left_alone(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    attempt = agent.attempt(1)
    assert attempt.bundle is not None
    attempt.bundle = attempt.bundle.model_copy(update={"checkpoint_watch": None})
    (agent.root / "work/snapshot.pt").write_bytes(archive(1))

    async def story() -> None:
        await agent.look(attempt)
        await agent.end(attempt, well=True)
        await agent.watching.before(attempt, attempt.bundle)  # type: ignore[arg-type]

    asyncio.run(story())
    assert agent.kinds() == []
    assert not (agent.root / "watched").exists()
    agent.close()


def test_a_long_copy_makes_way_for_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "HURRY_SECONDS", 0.0)
    agent = Agent(tmp_path)
    copying = threading.Event()

    def slow(_: float) -> None:
        copying.set()
        threading.Event().wait(0.001)

    monkeypatch.setattr(watching.time, "sleep", slow)

    async def story() -> None:
        attempt = agent.attempt(1)
        (agent.root / "work/snapshot.pt").write_bytes(archive(1, 60 * 1024 * 1024))
        look = asyncio.ensure_future(agent.look(attempt))
        await asyncio.to_thread(copying.wait, 60)
        await agent.next(2)
        await look

    began = time.monotonic()
    asyncio.run(asyncio.wait_for(story(), 120))
    assert time.monotonic() - began < 120
    assert not [*agent.root.glob("watched/*/save-*")], "it was left off"
    assert step_of_archive(agent.root / "work/snapshot.pt") == 1
    agent.close()


def test_an_export_waits_for_the_last_copies(tmp_path: Path) -> None:
    agent = Agent(tmp_path)

    async def story() -> None:
        attempt = agent.attempt(1)
        await agent.watching.settled(RUN)
        (agent.root / "work/snapshot.pt").write_bytes(archive(1))
        ending = asyncio.ensure_future(agent.watching.finish(attempt, well=True))
        await asyncio.sleep(0)
        await agent.watching.settled(RUN)
        assert make_plan(agent.root, RUN, "checkpoints", "last").steps
        await ending

    asyncio.run(story())
    agent.close()


def test_what_cannot_be_read_before_an_attempt_is_left_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "READ_PAUSES", (0.0, 0.0))
    agent = Agent(tmp_path)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(watching, "put_back", refuse)

    async def story() -> None:
        agent.attempt(1)
        await agent.next(2)

    asyncio.run(story())
    (warned,) = agent.told()
    assert "left as they are: Stale file handle" in warned["reason"]
    agent.close()

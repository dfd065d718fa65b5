"""Keeps the checkpoints of programs safe that know nothing of Trainyard: the source of
CheckpointRestored and WatchWarned.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from trainyard_agent.checkpoints.looks import (
    MOST_REST_SECONDS,
    Hurry,
    Looked,
    Looks,
    ranks_of,
    trusted,
)
from trainyard_agent.checkpoints.low_priority import lower_priority
from trainyard_agent.checkpoints.patterns import Match
from trainyard_agent.checkpoints.putting_back import PutBack, put_back
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.configuration import run_dir
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.bundles import bundle_of
from trainyard_agent.jobs.progress import step_at
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.checkpoint_events import (
    CheckpointRejected,
    CheckpointRestored,
    WatchWarned,
)
from trainyard_contracts.event_bases import AgentEvent
from trainyard_contracts.job_bundle import JobBundle

log = logging.getLogger(__name__)
T = TypeVar("T")

SCAN_SECONDS = 1.0
#: Looks take this share of a thread's time at most.
SHARE = 0.1
#: After so long without a match a person should hear of it.
NOTHING_SECONDS = 3600.0
#: Before an attempt is submitted, copies of what the last one saved get so long.
HURRY_SECONDS = 5.0
#: Between looks at what cannot be read while an attempt waits to be submitted.
READ_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
#: Between blocks of 1 MiB, as for other checkpoints.
_PAUSE_SECONDS = 0.0005


@dataclass
class _Run:
    """One run that is watched."""

    looks: Looks
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    seen: bool = False
    due: float = 0.0


class Watching:
    """Runs in the event loop; reading and copying in one thread of low priority."""

    def __init__(self, config: AgentConfig, attempts: Attempts, reporter: Reporter) -> None:
        self._config, self._attempts, self._reporter = config, attempts, reporter
        self._pool = ThreadPoolExecutor(1, "watching", initializer=lower_priority)
        #: Between two attempts the run does nothing, so this work is not of low priority, and it
        #: does not wait for another run's copies.
        self._urgent = ThreadPoolExecutor(4, "putting-back")
        self._runs: dict[str, _Run] = {}
        #: Until when copies may be made; the thread asks at each block.
        self._until: dict[str, float] = {}

    async def watch(self) -> None:
        while True:
            for attempt in self._attempts.active():
                if attempt.state == "running" and not self._attempts.superseded(attempt):
                    await self.look_at(attempt)
            await asyncio.sleep(SCAN_SECONDS)

    async def look_at(self, attempt: Attempt) -> None:
        """Copy what is complete by now."""
        bundle = bundle_of(attempt)
        if bundle is None or bundle.checkpoint_watch is None:
            return
        run = self._run(attempt.run_id)
        if run.lock.locked() or time.monotonic() < run.due:
            return
        async with run.lock:
            began, step = time.monotonic(), partial(step_at, attempt)
            number = attempt.number
            looked = await self._tried(
                self._pool, lambda: run.looks.look(bundle, number, step), attempt
            )
            took = time.monotonic() - began
            run.due = time.monotonic() + min(MOST_REST_SECONDS, took / SHARE)
        if looked is not None:
            run.seen = run.seen or looked.seen > 0
            self._warn(attempt, looked)
            if not run.seen and time.monotonic() - attempt.running_since >= NOTHING_SECONDS:
                self._warn_of_nothing(attempt, bundle, "in an hour")

    async def finish(self, attempt: Attempt, *, well: bool) -> None:
        """Once its job is over: copy what it saved last, and tell what is torn.

        If a newer attempt is there, that was done before it was submitted, and it writes by now.
        """
        bundle = bundle_of(attempt)
        if bundle is None or bundle.checkpoint_watch is None:
            return
        run = self._run(attempt.run_id)
        async with run.lock:
            if self._attempts.superseded(attempt):
                return
            looked = await self._last_look(run, attempt, bundle, well=well)
            run.seen = run.seen or (looked is not None and looked.seen > 0)
            if well and looked is not None and not run.seen:
                self._warn_of_nothing(attempt, bundle, "until the program had ended")

    async def settled(self, run_id: str) -> None:
        """Wait until nothing of the run's is being copied."""
        run = self._runs.get(run_id)
        if run is not None:
            async with run.lock:
                pass

    async def before(self, attempt: Attempt, bundle: JobBundle) -> None:
        """Before a next attempt is submitted: put back what its program should start from."""
        if bundle.checkpoint_watch is None or attempt.number == 1:
            return
        run, looked = self._run(attempt.run_id), None
        self._until[attempt.run_id] = time.monotonic() + HURRY_SECONDS
        async with run.lock:
            try:
                older = self._attempts.known.get((attempt.run_id, attempt.number - 1))
                if older is not None:
                    self._until[attempt.run_id] = time.monotonic() + HURRY_SECONDS
                    looked = await self._last_look(run, older, bundle, well=False)
            finally:
                self._until.pop(attempt.run_id, None)
            await self._put_back(attempt, bundle, looked or Looked())

    async def _put_back(self, attempt: Attempt, bundle: JobBundle, looked: Looked) -> None:
        root, spec = run_dir(self._config, attempt.run_id), bundle.checkpoint_watch
        assert spec is not None

        def work() -> list[PutBack]:
            return put_back(
                root,
                spec.patterns,
                attempt=attempt.number - 1,
                ranks=ranks_of(bundle),
                trusts=lambda match: trusted(root, spec, match),
                judged=looked.judged,
            )

        for pause in (*READ_PAUSES, None):
            try:
                for one in await asyncio.get_running_loop().run_in_executor(self._urgent, work):
                    self._tell(attempt, one, root)
                return
            except (OSError, ValueError) as error:
                log.warning("%s: its checkpoints cannot be put back: %s", attempt, error)
                if pause is None:
                    why = error.strerror if isinstance(error, OSError) else str(error)[:200]
                    reason = f"The program's checkpoints were left as they are: {why}."
                    self._warn(attempt, Looked({f"left-{attempt.number}": reason}))
                    return
                await asyncio.sleep(pause)

    async def _last_look(
        self, run: _Run, attempt: Attempt, bundle: JobBundle, *, well: bool
    ) -> Looked | None:
        step, number = partial(step_at, attempt), attempt.number
        looked = await self._tried(
            self._urgent, lambda: run.looks.last_look(bundle, number, step, well=well), attempt
        )
        if looked is not None:
            self._warn(attempt, looked)
            for match, reason in looked.torn.items():
                self._reject(attempt, match, reason)
        return looked

    async def _tried(
        self, pool: ThreadPoolExecutor, work: Callable[[], T], attempt: Attempt
    ) -> T | None:
        """What the work gives; None where it cannot be done just now."""
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work)
        except (OSError, ValueError, RecursionError, Hurry) as error:
            log.warning("%s: its checkpoints are not all copied: %s", attempt, error)
            return None

    def _run(self, run_id: str) -> _Run:
        if run_id not in self._runs:
            root = run_dir(self._config, run_id)
            self._runs[run_id] = _Run(Looks(root, lambda: self._breathe(run_id)))
        return self._runs[run_id]

    def _breathe(self, run_id: str) -> None:
        """Between two blocks: leave the processor to others, or leave off where others wait."""
        until = self._until.get(run_id)
        if until is None:
            time.sleep(_PAUSE_SECONDS)
        elif time.monotonic() > until:
            raise Hurry("the next attempt waits to be submitted")

    # -- events -----------------------------------------------------------------------------------
    def _warn(self, attempt: Attempt, looked: Looked) -> None:
        for name, reason in looked.warnings.items():
            event = self._reporter.make(
                WatchWarned, run_id=attempt.run_id, attempt=attempt.number, reason=reason
            )
            self._once(f"watch-{attempt.run_id}-{name}", event)

    def _warn_of_nothing(self, attempt: Attempt, bundle: JobBundle, when: str) -> None:
        assert bundle.checkpoint_watch is not None
        names = ", ".join(f"'{one}'" for one in bundle.checkpoint_watch.patterns[:4])
        self._warn(
            attempt,
            Looked(
                {
                    "nothing": f"Nothing was saved as {names} {when}, neither in the program's "
                    "working directory nor in its output directory: there is no copy to start from "
                    "after a failure. See checkpoint.watch.pattern."
                }
            ),
        )

    def _reject(self, attempt: Attempt, match: Match, reason: str) -> None:
        step = match.step if match.step is not None else _step(attempt)
        event = self._reporter.make(
            CheckpointRejected,
            run_id=attempt.run_id,
            attempt=attempt.number,
            step=step or 0,
            path=match.name,
            reason=reason,
        )
        self._once(f"torn-{attempt.run_id}-{match.name}-{match.signature}", event)

    def _tell(self, attempt: Attempt, one: PutBack, root: Path) -> None:
        log.warning("%s: %s: %s", attempt, one.source, one.reason)
        copy = one.kept
        event = self._reporter.make(
            CheckpointRestored,
            run_id=attempt.run_id,
            attempt=attempt.number,
            source=one.source,
            path=str(copy.path.relative_to(root)) if copy else "",
            step=copy.manifest.step if copy else None,
            counted=copy.source.counted if copy else False,
            reason=one.reason,
            set_aside=one.set_aside,
        )
        self._reporter.report(event)

    def _once(self, flag: str, event: AgentEvent) -> None:
        """Report it, unless that was done before."""
        store = self._reporter.store
        if store.flag(flag) is not None:
            return

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO flags VALUES(?, '1')", (flag,))

        self._reporter.report(event, change=change)

    def close(self) -> None:
        for pool in (self._pool, self._urgent):
            pool.shutdown(wait=False, cancel_futures=True)


def _step(attempt: Attempt) -> int | None:
    return attempt.progress.step if attempt.progress is not None else None

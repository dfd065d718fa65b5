"""Copies what a run makes to S3 while it trains, so that losing the cluster loses one interval."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from trainyard_agent.checkpoints.low_priority import lower_priority
from trainyard_agent.checkpoints.sync_brake import Brake, Rate, Stopped
from trainyard_agent.checkpoints.sync_memory import Done, Memory, Subject, Superseded
from trainyard_agent.checkpoints.sync_pass import SyncPass
from trainyard_agent.checkpoints.synced import BadSync, Synced, group_of
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.background import Background
from trainyard_agent.host.configuration import run_dir
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.locations import Location
from trainyard_agent.host.s3 import S3
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.bundles import bundle_of
from trainyard_contracts import places
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.bundle_parts import SyncOrder
from trainyard_contracts.event_bases import AgentEvent
from trainyard_contracts.export_manifest import ExportManifest
from trainyard_contracts.job_bundle import JobBundle
from trainyard_contracts.result_events import ResultsSynced, SyncFailed

log = logging.getLogger(__name__)
T = TypeVar("T")

SCAN_SECONDS = 1.0
#: The passes send so many files at once.
AT_ONCE = 4
#: A pass that took so long is followed by a pause at least so long, whatever the interval.
REST = 1.0
# Between two attempts of a run what is known of its files is kept for so long.
KEPT_SECONDS = 600.0
#: The longest pause after a pass that failed.
LAST_RETRY_SECONDS = 900.0
#: So many passes in a row must not reach S3 before a person hears of it: most pass by themselves.
UNREACHABLE_TOLD = 3
_FAILURES = (BadSync, Refused, Unreachable, OSError, ValueError, RecursionError)


@dataclass
class _Run:
    """One run that is synced."""

    memory: Memory = field(default_factory=Memory)
    due: float = 0.0
    stop: threading.Event = field(default_factory=threading.Event)
    passing: asyncio.Task[None] | None = None
    succeeded: float | None = None
    failures: int = 0
    told: str = ""
    over: int = 0
    """The attempt after which another agent took over."""


class Syncing:
    """Runs in the event loop; of a run one pass at a time, in threads of low priority."""

    def __init__(self, config: AgentConfig, attempts: Attempts, reporter: Reporter, s3: S3) -> None:
        self._config, self._attempts = config, attempts
        self._reporter, self._s3 = reporter, s3
        self._rate = Rate()
        self._pool = ThreadPoolExecutor(AT_ONCE, "sync", initializer=lower_priority)
        self._senders = ThreadPoolExecutor(AT_ONCE, "sync-send", initializer=lower_priority)
        self._runs: dict[str, _Run] = {}
        self._held: Counter[str] = Counter()
        self._background = Background()

    async def watch(self) -> None:
        while True:
            active = self._attempts.active()
            for attempt in active:
                self._consider(attempt)
            self._forget({attempt.run_id for attempt in active})
            await asyncio.sleep(SCAN_SECONDS)

    def _forget(self, active: Collection[str]) -> None:
        """What is known of runs that ended is not kept for ever."""
        now = time.monotonic()
        for run_id, run in list(self._runs.items()):
            if run_id not in active and run.passing is None and now > run.due + KEPT_SECONDS:
                del self._runs[run_id]

    def _consider(self, attempt: Attempt) -> None:
        bundle = bundle_of(attempt) if attempt.state == "running" else None
        if bundle is None or bundle.sync is None or self._attempts.superseded(attempt):
            return
        run = self._runs.setdefault(attempt.run_id, _Run(due=self._first(bundle.sync)))
        waits = time.monotonic() < run.due or run.over >= attempt.number
        if run.passing is None and not waits and not self._held[attempt.run_id]:
            run.stop = threading.Event()
            run.passing = self._background.spawn(self._pass(attempt, bundle, bundle.sync, run))

    @staticmethod
    def _first(order: SyncOrder) -> float:
        return time.monotonic() + order.every_seconds

    async def _pass(self, attempt: Attempt, bundle: JobBundle, order: SyncOrder, run: _Run) -> None:
        began = time.monotonic()
        subject = Subject(
            attempt.run_id,
            attempt.number,
            run_dir(self._config, attempt.run_id),
            bundle.checkpoint_directory,
            order.checkpoints,
        )
        work = SyncPass(subject, self._synced(order), run.memory, Brake(run.stop, self._rate))
        try:
            done = await asyncio.get_running_loop().run_in_executor(
                self._pool, work.run, self._senders
            )
        except Stopped:
            run.due = began + order.every_seconds
        except Superseded as error:
            log.warning("%s is not synced any more: %s", attempt, error)
            run.over = attempt.number
        except _FAILURES as error:
            self._failed(attempt, order, run, error)
        else:
            self._succeeded(attempt, order, run, done, took=time.monotonic() - began)
        finally:
            run.passing = None

    def _synced(self, order: SyncOrder) -> Synced:
        return Synced(self._s3, Location(self._config.data_bucket, order.prefix))

    # -- how it went ------------------------------------------------------------------------------
    def _succeeded(
        self, attempt: Attempt, order: SyncOrder, run: _Run, done: Done, *, took: float
    ) -> None:
        ended = time.monotonic()
        run.due = max(ended - took + order.every_seconds, ended + REST * took)
        run.succeeded, run.failures = ended - took, 0
        event = self._reporter.make(
            ResultsSynced,
            run_id=attempt.run_id,
            attempt=attempt.number,
            every_seconds=order.every_seconds,
            objects=done.latest.objects,
            bytes=done.latest.bytes,
            last_step=done.latest.last_step,
            left_out=done.latest.left_out,
        )
        if run.told:
            run.told = ""
            self._reporter.report(event)
        if done.latest.objects:
            self._once(f"sync-{attempt.run_id}", event)
        if done.undeleted:
            self._once(
                f"sync-undeleted-{attempt.run_id}",
                self._failure(attempt, run, "not-deleted", done.undeleted),
            )
        if took > order.every_seconds:
            words = (
                f"a copy took {took:.0f} s, and one is asked for every {order.every_seconds:g} s"
            )
            self._once(f"sync-slow-{attempt.run_id}", self._failure(attempt, run, "slow", words))

    def _failed(self, attempt: Attempt, order: SyncOrder, run: _Run, error: Exception) -> None:
        log.warning("%s is not synced now: %s", attempt, error)
        run.failures += 1
        # What is known may be wrong by now: the next pass looks for itself.
        known = run.memory
        run.memory = Memory(
            digests=known.digests, brought=known.brought, submission=known.submission
        )
        pause = min(LAST_RETRY_SECONDS, order.every_seconds * 2.0 ** min(run.failures - 1, 16))
        run.due = time.monotonic() + max(pause, min(order.every_seconds, LAST_RETRY_SECONDS))
        kind = _kind(error)
        if kind == run.told or (kind == "unreachable" and run.failures < UNREACHABLE_TOLD):
            return
        run.told = kind
        self._reporter.report(self._failure(attempt, run, kind, str(error)[:500]))

    def _failure(self, attempt: Attempt, run: _Run, trouble: str, reason: str) -> SyncFailed:
        behind = None if run.succeeded is None else time.monotonic() - run.succeeded
        return self._reporter.make(
            SyncFailed,
            run_id=attempt.run_id,
            attempt=attempt.number,
            trouble=trouble,
            reason=reason,
            behind_seconds=behind,
        )

    def _once(self, flag: str, event: AgentEvent) -> None:
        """Report it, unless that was done before."""
        if self._reporter.store.flag(flag) is not None:
            return

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO flags VALUES(?, '1')", (flag,))

        self._reporter.report(event, change=change)

    # -- exports ----------------------------------------------------------------------------------
    async def hold(self, run_id: str) -> Mapping[str, Location]:
        """End the pass that goes on; no other begins until `release`.

        Returns where in S3 what is synced lies, by its SHA-256.
        """
        self._held[run_id] += 1
        run = self._runs.get(run_id)
        if run is not None and run.passing is not None:
            run.stop.set()
            await asyncio.wait({run.passing})
        order = self._order(run_id)
        if order is None:
            return {}
        return await self._patient(lambda: _held(self._synced(order), run_id)) or {}

    async def release(self, run_id: str, exported: ExportManifest | None) -> None:
        """The export has ended. If it holds what the ended run left, the sync is deleted."""
        self._held[run_id] -= 1
        order, newest = self._order(run_id), self._attempts.newest(run_id)
        active = any(attempt.run_id == run_id for attempt in self._attempts.active())
        if exported is None or order is None or active or newest is None:
            return
        if newest.state == "ended":
            self._runs.pop(run_id, None)
            await self._patient(lambda: _discard(self._synced(order), exported))

    def _order(self, run_id: str) -> SyncOrder | None:
        newest = self._attempts.newest(run_id)
        bundle = bundle_of(newest) if newest is not None else None
        return bundle.sync if bundle is not None else None

    @staticmethod
    async def _patient(work: Callable[[], T]) -> T | None:
        """What it gives; None where S3 says no. An export does without."""
        try:
            return await asyncio.to_thread(work)
        except (BadSync, Refused, Unreachable) as error:
            log.warning("the export does without the sync: %s", error)
            return None

    def close(self) -> None:
        for run in self._runs.values():
            run.stop.set()
        for pool in (self._pool, self._senders):
            pool.shutdown(wait=False, cancel_futures=True)


def _held(synced: Synced, run_id: str) -> dict[str, Location]:
    latest = synced.latest(run_id)
    manifest = synced.manifest(latest) if latest is not None else None
    objects = manifest.objects if manifest is not None else []
    return {found.sha256: synced.object(found.sha256) for found in objects}


def _discard(synced: Synced, exported: ExportManifest) -> None:
    """Delete the sync, unless the export holds less: its filesystem may have gone away."""
    latest = synced.latest(exported.run_id)
    if latest is None:  # nothing is in force: an agent that died may have left the rest
        synced.discard()
        return
    manifest = synced.manifest(latest)
    if manifest is None:
        return
    not_own = (f"{places.LOGS}/", f"{places.CURVES}/")
    own = any(
        not group_of(file.key) and not file.key.startswith(not_own) for file in manifest.objects
    )
    lacks_own = own and not exported.output_files + exported.working_files
    if lacks_own or (manifest.last_step or 0) > (exported.last_step or 0):
        log.warning("%s: its export holds less than its sync, which stays", exported.run_id)
        return
    synced.discard()


def _kind(error: Exception) -> str:
    if isinstance(error, Unreachable):
        return "unreachable"
    if isinstance(error, Refused):
        return "denied"
    return "disk" if isinstance(error, OSError) else "other"

"""Brings back what was synced or exported, where a run goes on with an empty shared filesystem."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard_agent.checkpoints.restore_state import State
from trainyard_agent.checkpoints.restorer import Restorer
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.background import in_own_thread
from trainyard_agent.host.configuration import run_dir
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.s3 import S3
from trainyard_contracts import places
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.job_bundle import JobBundle
from trainyard_contracts.result_events import RunRestored

log = logging.getLogger(__name__)


@dataclass
class Restoring:
    """One on its way; a submit that is repeated meanwhile waits for the same."""

    task: asyncio.Task[None]
    state: State


class Restores:
    """One at a time for each run."""

    def __init__(self, config: AgentConfig, reporter: Reporter, s3: S3) -> None:
        self._config, self._reporter, self._s3 = config, reporter, s3
        self._running: dict[str, Restoring] = {}
        self._done: set[tuple[str, int]] = set()

    def bring(self, bundle: JobBundle) -> Restoring | None:
        """Start or join it; None where nothing is to be restored. Raises OSError."""
        name, root = (bundle.run_id, bundle.attempt), run_dir(self._config, bundle.run_id)
        if bundle.sync is None or bundle.attempt == 1 or name in self._done or was_here(root):
            return None
        if bundle.run_id not in self._running:
            _require_mounts(self._config.mounts)
            state = State()
            restorer = Restorer(self._s3, self._config, root, bundle, bundle.sync, state)
            task = asyncio.create_task(self._bring(restorer, bundle))
            self._running[bundle.run_id] = Restoring(task, state)
            task.add_done_callback(lambda ended: self._ended(bundle.run_id, ended))
        return self._running[bundle.run_id]

    async def _bring(self, restorer: Restorer, bundle: JobBundle) -> None:
        try:
            facts = await in_own_thread(restorer.run)
        finally:
            restorer.state.stop.set()
        if facts is not None:
            self._tell(bundle, facts)
        self._done.add((bundle.run_id, bundle.attempt))

    def _tell(self, bundle: JobBundle, facts: Mapping[str, Any]) -> None:
        """Once: after a kill everything is there, and is looked at once more."""
        event = self._reporter.make(
            RunRestored, run_id=bundle.run_id, attempt=bundle.attempt, **facts
        )
        flag = f"restored-{bundle.run_id}-{bundle.attempt}"
        if self._reporter.store.flag(flag) is not None:
            return

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO flags VALUES(?, '1')", (flag,))

        self._reporter.report(event, change=change)

    def _ended(self, run_id: str, task: asyncio.Task[None]) -> None:
        del self._running[run_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("%s could not be restored: %s", run_id, error)  # the next submit meets it

    @staticmethod
    async def wait(restoring: Restoring, deadline: float) -> None:
        """Until it is there. Raises what it failed with, or CommandRefused at the deadline."""
        await asyncio.wait({restoring.task}, timeout=max(0.0, deadline - time.monotonic()))
        if not restoring.task.done():
            raise CommandRefused(
                "fetching",
                f"the run is still being restored from S3: {restoring.state.words()}; "
                "the same command again is safe",
            )
        restoring.task.result()


def was_here(root: Path) -> bool:
    """Whether an attempt of the run left something on this filesystem. Raises OSError."""
    try:
        return any(name.isdecimal() for name in os.listdir(root / places.ATTEMPTS))
    except FileNotFoundError:
        return False


def _require_mounts(paths: Sequence[str]) -> None:
    """An empty mount point is listed without an error; below it nobody would look for the run, and
    what is on the filesystem would count as gone. Raises OSError.
    """
    for path in paths:
        if not os.path.ismount(os.path.realpath(path)):
            raise OSError(errno.ESTALE, "the shared filesystem is not mounted", path)

"""Watches the checkpoints of active runs.

It verifies each new one once, reports it, and prunes, always keeping the newest whole ones.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from trainyard_agent.checkpoints import best
from trainyard_agent.checkpoints.findings import Finding
from trainyard_agent.checkpoints.low_priority import lower_priority
from trainyard_agent.checkpoints.names import order, step_of
from trainyard_agent.checkpoints.pruning import remove, removed, to_prune
from trainyard_agent.checkpoints.scanning import scan_all
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.configuration import run_dir
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.bundles import bundle_of
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.checkpoint_events import (
    CheckpointCommitted,
    CheckpointPruned,
    CheckpointRejected,
)

log = logging.getLogger(__name__)

SCAN_SECONDS = 1.0
#: The first pause between two looks at a checkpoint that cannot be read just now; then they grow.
FIRST_RETRY_SECONDS = 1.0
#: The longest pause between two looks at a checkpoint that cannot be read just now.
LAST_RETRY_SECONDS = 60.0


class Checkpoints:
    """Runs in the event loop; reading and hashing in one thread of low priority."""

    def __init__(self, config: AgentConfig, attempts: Attempts, reporter: Reporter) -> None:
        self._config, self._attempts, self._reporter = config, attempts, reporter
        self._pool = ThreadPoolExecutor(1, "checkpoints", initializer=lower_priority)
        self._known: dict[str, dict[str, tuple[str, str]]] = {}
        self.exporting: Counter[str] = Counter()
        #: (run, path) of what could not be read -> (tries, when to look again).
        self._unread: dict[tuple[str, str], tuple[int, float]] = {}
        self._forget_rejections_of_older_agents()
        query = "SELECT run, path, status, signature FROM checkpoints"
        for run, path, status, sign in reporter.store.connection.execute(query):
            self._known.setdefault(run, {})[path] = (status, sign)

    def _forget_rejections_of_older_agents(self) -> None:
        """Forget what older agents rejected, since they rejected also after errors that pass.

        Checkpoints that are not whole will be rejected again.
        """
        connection = self._reporter.store.connection
        if connection.execute("SELECT 1 FROM flags WHERE name = 'rejects-content-only'").fetchone():
            return

        def change(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM checkpoints WHERE status = 'rejected'")
            db.execute("INSERT OR REPLACE INTO flags VALUES('rejects-content-only', '1')")

        self._reporter.report(change=change)

    def known(self, run_id: str) -> list[dict[str, Any]]:
        """Newest first, as `status` shows them."""
        found = self._known.get(run_id, {})
        paths = sorted(found, key=order, reverse=True)
        return [
            {
                "path": path,
                "step": step_of(path),
                "attempt": order(path)[1],
                "status": found[path][0],
            }
            for path in paths
        ]

    async def watch(self) -> None:
        while True:
            for attempt in [*self._attempts.active(), *self._with_unread()]:
                await self.look_at(attempt)
            await asyncio.sleep(SCAN_SECONDS)

    def _with_unread(self) -> list[Attempt]:
        """Ended attempts of runs whose last checkpoints could not be read yet."""
        newest = [
            self._attempts.newest(run_id) for run_id in {run_id for run_id, _ in self._unread}
        ]
        return [attempt for attempt in newest if attempt is not None and not attempt.active]

    async def look_at(self, attempt: Attempt) -> None:
        """Scan one run; report what is new; prune."""
        bundle = bundle_of(attempt)
        if bundle is None:
            return
        root = run_dir(self._config, attempt.run_id)
        known = self._known.setdefault(attempt.run_id, {})
        loop = asyncio.get_running_loop()
        later = {
            path
            for (run, path), (_, due) in self._unread.items()
            if run == attempt.run_id and due > time.monotonic()
        }
        findings, present = await loop.run_in_executor(
            self._pool, scan_all, root, bundle, attempt.run_id, dict(known), later
        )
        for finding in sorted(findings, key=lambda item: (item.step, item.attempt)):
            if finding.status == "unreadable":
                self._look_again(attempt.run_id, finding)
            else:
                self._unread.pop((attempt.run_id, finding.path), None)
                self._record(attempt.run_id, finding)
        unread = {path for run, path in self._unread if run == attempt.run_id}
        if missing := (set(known) | unread) - present:
            for path in await loop.run_in_executor(self._pool, removed, root, missing, present):
                self._gone(attempt.run_id, path)
        await self._prune(attempt.run_id, root, bundle.checkpoint_keep, present)

    def _look_again(self, run_id: str, finding: Finding) -> None:
        """Plan another look at a checkpoint that cannot be read just now: it need not be torn."""
        tries = self._unread.get((run_id, finding.path), (0, 0.0))[0]
        pause = min(LAST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2**tries)
        self._unread[run_id, finding.path] = (min(tries + 1, 32), time.monotonic() + pause)
        log.warning(
            "%s: checkpoint %s cannot be read just now (%s): again in %.0f s",
            run_id,
            finding.path,
            finding.reason,
            pause,
        )

    def _record(self, run_id: str, finding: Finding) -> None:
        before = self._known[run_id].get(finding.path)
        self._known[run_id][finding.path] = (finding.status, finding.signature)
        row = (
            run_id,
            finding.path,
            finding.step,
            finding.attempt,
            finding.status,
            finding.signature,
        )

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO checkpoints VALUES(?, ?, ?, ?, ?, ?)", row)

        if before is not None and before[0] == finding.status:
            return self._reporter.report(change=change)
        facts = {
            "run_id": run_id,
            "attempt": max(1, finding.attempt),
            "step": finding.step,
            "path": finding.path,
        }
        if finding.status == "whole":
            event: Any = self._reporter.make(
                CheckpointCommitted,
                **facts,
                bytes=finding.bytes,
                files=finding.files,
                committed_at=finding.committed_at,
                source=finding.source,
                counted=finding.counted,
            )
        else:
            event = self._reporter.make(
                CheckpointRejected, **facts, reason=finding.reason, counted=finding.counted
            )
            log.warning("%s: checkpoint %s is not whole: %s", run_id, finding.path, finding.reason)
        return self._reporter.report(event, change=change)

    def _gone(self, run_id: str, path: str) -> None:
        """Forget a checkpoint that was removed, and report it once if it was whole.

        A rejected one stays rejected for everyone.
        """
        self._unread.pop((run_id, path), None)
        before = self._known[run_id].pop(path, None)
        if before is None:
            return
        event = self._reporter.make(
            CheckpointPruned,
            run_id=run_id,
            attempt=max(1, order(path)[1]),
            step=step_of(path),
            path=path,
        )

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM checkpoints WHERE run = ? AND path = ?", (run_id, path))

        self._reporter.report(*([event] if before[0] == "whole" else []), change=change)

    async def _prune(self, run_id: str, root: Path, keep: int, present: Collection[str]) -> None:
        """Remove old checkpoints; a missing one must not count as one that is kept."""
        statuses = {
            path: status for path, (status, _) in self._known[run_id].items() if path in present
        }
        for path in await self._surplus(root, to_prune(statuses, keep)):
            if await asyncio.get_running_loop().run_in_executor(
                self._pool, self._remove, run_id, root / path
            ):
                self._gone(run_id, path)

    async def _surplus(self, root: Path, old: list[str]) -> list[str]:
        """Without the best one; nothing if that is not known just now."""
        if not old:
            return old
        try:
            spared = await asyncio.get_running_loop().run_in_executor(self._pool, best.names, root)
        except OSError as error:
            log.warning("%s: nothing is pruned now: %s", root.name, error)
            return []
        return [path for path in old if Path(path).name not in spared]

    def _remove(self, run_id: str, path: Path) -> bool:
        """Remove a checkpoint, unless an export needs it by now.

        This runs in the thread, where it may have waited behind much hashing.
        """
        return not self.exporting[run_id] and remove(path)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

"""Watches the checkpoints of active runs.

It verifies each new one once, reports it, and prunes, always keeping the newest whole ones.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sqlite3
import stat
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from trainyard_agent.checkpoints import best
from trainyard_agent.checkpoints.kept import kept_at, stores
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.configuration import run_dir
from trainyard_agent.host.job_files import may_pass, read_small, stays_inside
from trainyard_agent.host.s3 import Digest, digest
from trainyard_agent.jobs.attempts import Attempt, Attempts
from trainyard_agent.jobs.bundles import bundle_of
from trainyard_contracts import places
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.checkpoint_events import (
    CheckpointCommitted,
    CheckpointPruned,
    CheckpointRejected,
)
from trainyard_contracts.checkpoint_manifest import CheckpointManifest
from trainyard_contracts.job_bundle import JobBundle

log = logging.getLogger(__name__)

SCAN_SECONDS = 1.0
#: A manifest may have so much: the names, sizes and hashes of about 100,000 files.
MANIFEST_BYTES = 16 * 1024 * 1024
#: So many of the newest checkpoints are looked at again for changes (a corrupted file changes its
#: time or size).
RECHECKED = 2
#: Between blocks of 1 MiB: at most a good half of one core, however much there is to hash.
_PAUSE_SECONDS = 0.0005
_NICENESS = 10
#: The first pause between two looks at a checkpoint that cannot be read just now; then they grow.
FIRST_RETRY_SECONDS = 1.0
#: The longest pause between two looks at a checkpoint that cannot be read just now.
LAST_RETRY_SECONDS = 60.0


class NotWhole(Exception):
    """The checkpoint does not verify; the text says which file and how."""


@dataclass(frozen=True)
class Finding:
    """One checkpoint looked at; `path` is relative to the run's directory."""

    path: str
    step: int
    attempt: int
    status: Literal["whole", "rejected", "unreadable"]
    signature: str
    reason: str = ""
    bytes: int = 0
    files: int = 0
    committed_at: datetime | None = None
    source: str = ""
    counted: bool = False


def verify(
    directory: Path, run_id: str | None = None
) -> tuple[CheckpointManifest, dict[str, Digest]]:
    """Read every file of a checkpoint and compare it with the manifest.

    Raises NotWhole for what its files are, and OSError where one cannot be read just now, which
    says nothing of it.
    """
    manifest = read_manifest(directory, run_id)
    digests = {}
    for item in manifest.files:
        path = directory / item.path
        try:
            # The size first: it costs nothing and finds most torn files.
            size = path.lstat().st_size
            if size != item.bytes:
                raise NotWhole(f"{item.path} has {size} bytes, the manifest says {item.bytes}")
            found = digest(path, below=directory.parent, pause=lambda: time.sleep(_PAUSE_SECONDS))
        except OSError as error:
            if may_pass(error):
                raise
            raise NotWhole(f"{item.path} cannot be read: {error.strerror or error}") from error
        if (found.size, found.sha256) != (item.bytes, item.sha256):
            raise NotWhole(f"{item.path} does not have the hash that the manifest says")
        digests[item.path] = found
    return manifest, digests


def read_manifest(directory: Path, run_id: str | None) -> CheckpointManifest:
    """Raises NotWhole, OSError."""
    try:
        manifest = CheckpointManifest.model_validate_json(
            read_small(directory.parent, directory / places.CHECKPOINT_MANIFEST, MANIFEST_BYTES)
        )
        for item in manifest.files:
            stays_inside(item.path)
    except FileNotFoundError as error:
        raise NotWhole("it has no manifest.json") from error
    except OSError as error:
        if may_pass(error):
            raise
        raise NotWhole(f"manifest.json cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise NotWhole(f"manifest.json is malformed: {str(error).splitlines()[0][:200]}") from error
    if run_id is not None and manifest.run_id != run_id:
        raise NotWhole(f"it belongs to run {manifest.run_id}")
    return manifest


def signature(directory: Path) -> str:
    """Changes when any file of the checkpoint is replaced, written to, or removed.

    '' if the directory is gone.
    """
    parts = []
    try:
        for root, _, names in os.walk(directory):
            for name in sorted(names):
                path = os.path.join(root, name)
                at = os.stat(path)
                relative = os.path.relpath(path, directory)
                parts.append(f"{relative}:{at.st_size}:{at.st_mtime_ns}:{at.st_ino}")
    except OSError:
        return ""
    return "|".join(parts) if parts or directory.is_dir() else ""


def listing(directory: Path) -> list[Path]:
    """Committed checkpoints, newest (step, then attempt) first.

    Raises OSError where that cannot be read just now.
    """
    try:
        names = [name for name in os.listdir(directory) if order(name) != (-1, -1)]
    except OSError as error:
        if may_pass(error):
            raise
        return []
    return [directory / name for name in sorted(names, key=order, reverse=True)]


def order(name: str) -> tuple[int, int]:
    """The newer, the larger, among those in one directory: step and attempt, or a copy's number."""
    last = name.rpartition("/")[2]
    if match := places.CHECKPOINT_NAME.match(last):
        return int(match.group(1)), int(match.group(2))
    copy = places.SAVE_NAME.match(last)
    return (int(copy.group(1)), int(copy.group(3))) if copy else (-1, -1)


def step_of(name: str) -> int:
    """The step that a checkpoint's name says."""
    copy = places.SAVE_NAME.match(name.rpartition("/")[2])
    return int(copy.group(2)) if copy else order(name)[0]


def directories(root: Path, bundle: JobBundle) -> list[str]:
    """Where checkpoints of a run lie, relative to its directory: its own, and our copies.

    Raises OSError where that cannot be seen just now.
    """
    return [bundle.checkpoint_directory, *(stores(root) if bundle.checkpoint_watch else ())]


def scan(
    root: Path,
    directory: str,
    run_id: str,
    known: Mapping[str, tuple[str, str]],
    later: Collection[str] = (),
) -> tuple[list[Finding], set[str]]:
    """Look at what is new or changed; (findings, paths that exist).

    `known`: path -> (status, signature); `later`: not to look at now.
    """
    findings, present = [], set()
    try:
        listed = listing(root / directory)
    except OSError as error:
        log.warning("%s cannot be listed just now: %s", root / directory, error)
        return [], set()
    for position, path in enumerate(listed):
        name = str(path.relative_to(root))
        present.add(name)
        if name in later or (name in known and position >= RECHECKED):
            continue
        now = signature(path)
        if not now and _no_directory(path):
            continue
        if name in known and known[name][1] == now:
            continue
        finding = look(path, name, run_id, now)
        if finding is not None:
            findings.append(finding)
    return findings, present


def scan_all(
    root: Path,
    bundle: JobBundle,
    run_id: str,
    known: Mapping[str, tuple[str, str]],
    later: Collection[str] = (),
) -> tuple[list[Finding], set[str]]:
    """The same for each directory of the run's."""
    findings: list[Finding] = []
    present: set[str] = set()
    try:
        where = directories(root, bundle)
    except OSError as error:
        log.warning("the copies in %s cannot be listed just now: %s", root, error)
        where = [bundle.checkpoint_directory]
    for directory in where:
        found, there = scan(root, directory, run_id, known, later)
        findings += found
        present |= there
    return findings, present


def look(path: Path, name: str, run_id: str, now: str) -> Finding | None:
    """Verify one checkpoint; None if it was removed meanwhile."""
    step, attempt = step_of(name), order(name)[1]
    try:
        manifest, digests = verify(path, run_id)
        committed = datetime.fromtimestamp(
            (path / places.CHECKPOINT_MANIFEST).stat().st_mtime, timezone.utc
        )
    except NotWhole as error:
        if _no_directory(path):
            return None
        found = Finding(name, step, attempt, "rejected", now, str(error))
        return replace(found, counted=_is_counted(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        return Finding(name, step, attempt, "unreadable", now, error.strerror or str(error))
    if manifest.step != step:
        return Finding(
            name, step, attempt, "rejected", now, f"its manifest is of step {manifest.step}"
        )
    size = sum(item.size for item in digests.values())
    found = Finding(name, step, attempt, "whole", now, "", size, len(digests), committed)
    copied = manifest.watched
    return replace(found, source=copied.path, counted=copied.counted) if copied else found


def _is_counted(path: Path) -> bool:
    """Whether it is a copy whose step is not known, as far as that can be read."""
    try:
        copy = kept_at(path)
    except OSError:
        return False
    return copy is not None and copy.source.counted


def to_prune(known: Mapping[str, str], keep: int) -> list[str]:
    """Paths of the whole checkpoints beyond the `keep` newest; never the last whole one.

    Each directory has its own. `known`: path -> status.
    """
    whole: dict[str, list[str]] = {}
    for path in sorted(known, key=order, reverse=True):
        if known[path] == "whole":
            whole.setdefault(path.rpartition("/")[0], []).append(path)
    return [path for found in whole.values() for path in found[max(1, keep) :]]


def removed(root: Path, missing: Collection[str], present: Collection[str]) -> list[str]:
    """Those of the missing checkpoints that were removed, oldest first.

    The trainer and the agent prune, and always leave a newer checkpoint. If there is none at all,
    the shared filesystem may be away (an empty mount point is listed without an error): then we
    know nothing.
    """
    newest: dict[str, tuple[int, int]] = {}
    for path in present:
        directory = path.rpartition("/")[0]
        newest[directory] = max(order(path), newest.get(directory, (-1, -1)))

    def is_older(path: str) -> bool:
        return order(path) < newest.get(path.rpartition("/")[0], (-1, -1))

    return sorted((path for path in missing if is_older(path) and absent(root / path)), key=order)


def absent(path: Path) -> bool:
    """Whether the filesystem says that there is no such thing; any other error says nothing."""
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _no_directory(path: Path) -> bool:
    """Whether the filesystem says that there is none."""
    try:
        return not stat.S_ISDIR(path.stat().st_mode)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def remove(path: Path) -> bool:
    """Remove a checkpoint; it is renamed first, so that no reader finds half of it.

    Returns False if it cannot be renamed or is not there. If the agent dies in between, the next
    attempt's trainer removes what is left under the new name.
    """
    aside = path.with_name(f".old-by-agent-{path.name}")
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return False
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error)
        return False
    shutil.rmtree(aside, ignore_errors=True)
    return True


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


def lower_priority() -> None:
    """On Linux a thread has a niceness of its own: training comes first."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
    except OSError:
        pass

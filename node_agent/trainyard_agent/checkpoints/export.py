"""Copies a run to S3 and proves that the copy is whole.

It reads back every object's size and SHA-256, and writes the manifest last. After any crash it
goes on where it was.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol, TypeVar

from trainyard_agent.checkpoints import own_files
from trainyard_agent.checkpoints.checkpoints import Checkpoints
from trainyard_agent.checkpoints.export_plan import ExportFailed, Item, Plan, make_plan
from trainyard_agent.checkpoints.own_files import Found, OwnFile
from trainyard_agent.checkpoints.presence import absent
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.configuration import run_dir
from trainyard_agent.host.digests import SINGLE_PUT_BYTES, Digest, digest
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.job_files import may_pass, read_tail
from trainyard_agent.host.locations import Location, parse_uri
from trainyard_agent.host.s3 import S3
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.bundles import bundle_of
from trainyard_contracts import places
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.commands import Exporting
from trainyard_contracts.export_manifest import ExportedObject, ExportManifest
from trainyard_contracts.result_events import ExportFinished

log = logging.getLogger(__name__)

T = TypeVar("T")

AT_ONCE = 4
LOG_BYTES = 64 * 1024 * 1024
TRIES = 8
#: Between looks at files that cannot be read just now: five minutes in all.
READ_PAUSES = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 60.0, 60.0, 60.0)
#: So often an export begins anew when all checkpoints that it had found were pruned meanwhile.
PLANS = 5
#: Nobody prunes these.
_PERMANENT = frozenset({places.FINAL})


class Unsteady(ExportFailed):
    """A file changes whenever it is read."""


@dataclass(frozen=True)
class Target:
    """Where an export goes; `synced`: where in S3 the same bytes may be already, by their hash."""

    at: Location
    synced: Mapping[str, Location]


class Syncing(Protocol):
    """The continuous sync, which makes way for exports."""

    async def hold(self, run_id: str) -> Mapping[str, Location]: ...

    async def release(self, run_id: str, exported: ExportManifest | None) -> None: ...


def _logs(root: Path) -> list[Path]:
    """The attempts' logs; what a job put in the place of one is left out."""
    found = (root / places.ATTEMPTS).glob(f"*/{places.JOB_LOG}")
    return sorted(
        path
        for path in found
        if path.parent.name.isdecimal()
        and not path.parent.is_symlink()
        and not path.is_symlink()
        and path.is_file()
    )


def _manifest(
    run_id: str,
    plan: Plan,
    objects: list[ExportedObject],
    output: tuple[Found, int],
    working: tuple[Found, int],
) -> ExportManifest:
    """`output`, `working`: what was found there, and how many of those files were exported."""
    return ExportManifest(
        run_id=run_id,
        created_at=datetime.now(timezone.utc),
        objects=objects,
        links=[*output[0].links, *working[0].links],
        last_step=plan.last_step,
        final_model=plan.final_model,
        output_files=output[1],
        output_left_out=output[0].left_out,
        working_files=working[1],
        working_left_out=working[0].left_out,
        left_out_bytes=output[0].left_out_bytes + working[0].left_out_bytes,
    )


def _object(key: str, known: Digest) -> ExportedObject:
    return ExportedObject(key=key, bytes=known.size, sha256=known.sha256, checksum=known.checksum)


class Exports:
    """One export at a time for each export id.

    The daemon goes on with unfinished ones after a restart.
    """

    def __init__(
        self,
        config: AgentConfig,
        attempts: Attempts,
        checkpoints: Checkpoints,
        reporter: Reporter,
        s3: S3,
        *,
        settled: Callable[[str], Awaitable[None]] | None = None,
        syncing: Syncing | None = None,
    ) -> None:
        """`settled`: waits until the last copies of a program's own checkpoints are made."""
        self._syncing = syncing
        self._config, self._attempts, self._checkpoints = config, attempts, checkpoints
        self._reporter, self._s3, self._settled = reporter, s3, settled
        self._running: dict[str, asyncio.Task[None]] = {}
        self._uploads = asyncio.Semaphore(AT_ONCE)

    def start(self, run_id: str, export_id: str, destination: str, selection: str) -> Exporting:
        """Begin the export of this id, or return its state.

        An export that failed begins again where it stopped.
        """
        parse_uri(destination)
        row = self._reporter.store.connection.execute(
            "SELECT run, state, manifest FROM exports WHERE id = ?", (export_id,)
        ).fetchone()
        if row is not None and row[0] != run_id:
            raise CommandRefused("conflict", f"export {export_id} is of another run")
        if row is not None and row[1] == "finished":
            return Exporting("finished", row[2])
        if export_id not in self._running:
            values = (export_id, run_id, destination, selection, "running", "")
            self._reporter.store.apply_now(
                lambda db: db.execute(
                    "INSERT OR REPLACE INTO exports VALUES(?, ?, ?, ?, ?, ?, '')", values
                )
            )
            self._spawn(run_id, export_id, destination, selection)
        return Exporting("running")

    def resume(self) -> None:
        """Go on, after a restart, with the exports that were running."""
        query = "SELECT run, id, destination, checkpoints FROM exports WHERE state = 'running'"
        for run_id, export_id, destination, selection in self._reporter.store.connection.execute(
            query
        ).fetchall():
            log.info("%s: going on with export %s", run_id, export_id)
            self._spawn(run_id, export_id, destination, selection)

    def _spawn(self, run_id: str, export_id: str, destination: str, selection: str) -> None:
        task = asyncio.create_task(self._run(run_id, export_id, parse_uri(destination), selection))
        self._running[export_id] = task
        task.add_done_callback(lambda _: self._running.pop(export_id, None))

    async def _run(
        self, run_id: str, export_id: str, destination: Location, selection: str
    ) -> None:
        self._checkpoints.exporting[run_id] += 1
        exported: ExportManifest | None = None
        told: dict[str, Any]
        try:
            synced = await self._syncing.hold(run_id) if self._syncing else {}
            exported, told = await self._copy(run_id, Target(destination, synced), selection)
            told["manifest_key"] = destination.under(places.EXPORT_MANIFEST).key
        except (ExportFailed, Refused, OSError, ValueError) as error:
            log.error("%s: export %s failed: %s", run_id, export_id, error)
            told = {"reason": str(error)[:1000]}
        finally:
            # Before its end is told: then the cluster may go, and with it who cleans up.
            if self._syncing is not None:
                await self._syncing.release(run_id, exported)
            self._checkpoints.exporting[run_id] -= 1
        self._finish(run_id, export_id, ok=exported is not None, **told)

    async def _copy(
        self, run_id: str, target: Target, selection: str
    ) -> tuple[ExportManifest, dict[str, Any]]:
        """Upload and prove everything; the manifest, and what ExportFinished says of it."""
        if self._settled is not None:
            await self._settled(run_id)
        root = run_dir(self._config, run_id)
        newest = self._attempts.newest(run_id)
        bundle = bundle_of(newest) if newest else None
        directory = bundle.checkpoint_directory if bundle else places.CHECKPOINTS
        plan, objects = await self._whole(root, run_id, target, directory, selection)
        output, working, curves = await self._seen(
            lambda: (
                own_files.output(root),
                own_files.working(root, directory),
                own_files.curves(root),
            )
        )
        training = any(attempt.run_id == run_id for attempt in self._attempts.active())
        own = await asyncio.gather(
            *(self._own(target, root, file, training) for file in [*output.files, *working.files])
        )
        reported = await asyncio.gather(*(self._reported(target, root, file) for file in curves))
        # Logs grow while a job runs, so each is copied as it is at this moment.
        logs = {places.log_name(path.parent.name): path for path in _logs(root)}
        digests = await asyncio.gather(
            *(self._verified_bytes(target.at.under(key), path) for key, path in logs.items())
        )
        objects += [found for found in (*own, *reported) if found is not None]
        objects += [_object(key, known) for key, known in zip(logs, digests, strict=True)]
        parts = [own[: len(output.files)], own[len(output.files) :]]
        kept = [sum(found is not None for found in part) for part in parts]
        manifest = _manifest(run_id, plan, objects, (output, kept[0]), (working, kept[1]))
        body = manifest.model_dump_json(by_alias=True, indent=1).encode()
        at = target.at.under(places.EXPORT_MANIFEST)
        written = await self._patiently(lambda: self._prove(at, self._s3.put_bytes(at, body)))
        return manifest, {
            "objects": len(objects),
            "bytes": sum(item.bytes for item in objects),
            "manifest_sha256": written.sha256,
        }

    async def _planned(self, *what: Any) -> Plan:
        return await self._seen(
            lambda: make_plan(*what), functools.partial(make_plan, *what, without_unreadable=True)
        )

    async def _seen(self, look: Callable[[], T], last: Callable[[], T] | None = None) -> T:
        """Wait for what cannot be read just now, instead of failing.

        A file system that fails over is back within minutes. `last`: the last look.
        """
        for pause in READ_PAUSES:
            try:
                return await asyncio.to_thread(look)
            except OSError as error:
                log.warning("export: %s; again in %.0f s", error, pause)
                await asyncio.sleep(pause)
        return await asyncio.to_thread(last or look)

    async def _whole(
        self, root: Path, run_id: str, target: Target, directory: str, selection: str
    ) -> tuple[Plan, list[ExportedObject]]:
        """Checkpoints and the final model.

        A trainer prunes while it trains. Checkpoints that vanish are left out; if all of them
        vanish, we begin anew.
        """
        for _ in range(PLANS):
            plan = await self._planned(root, run_id, directory, selection)
            ends = await asyncio.gather(*(self._verified(target, item) for item in plan.items))
            gone = {item.group for item, end in zip(plan.items, ends, strict=True) if end is None}
            plan = plan.without(gone)
            if plan.steps or not plan.lost:
                return plan, [_object(item.key, item.known) for item in plan.items]
        raise ExportFailed(
            "each checkpoint was pruned while it was copied: let more of them stay "
            "(checkpoint.keep), or export when the run has ended"
        )

    async def _verified(self, target: Target, item: Item) -> Digest | None:
        """None if the checkpoint that the file belongs to was removed meanwhile."""
        at = target.at.under(item.key)

        def upload() -> Digest:
            if not self._is_there(target, at, item.known):
                self._s3.put_file(at, item.path, item.known)
            return self._prove(at, item.known)

        try:
            return await self._patiently(upload)
        except FileNotFoundError:
            if item.group in _PERMANENT or not absent(item.path):
                raise
            log.warning("export: %s was pruned while it was copied", item.group)
            return None

    async def _own(
        self, target: Target, root: Path, file: OwnFile, training: bool
    ) -> ExportedObject | None:
        """A program's own file as it is at this moment.

        None if it was removed, or does not keep still while the program runs.
        """
        at = target.at.under(file.key)

        def upload() -> Digest:
            for _ in range(TRIES):
                known = digest(file.path, below=root)
                if self._is_there(target, at, known):
                    return known
                try:
                    self._s3.put_file(at, file.path, known)
                    return self._prove(at, known)
                except Refused:
                    if digest(file.path, below=root) == known:
                        raise
            raise Unsteady(f"{file.key} is still being written")

        try:
            return _object(file.key, await self._patiently(upload))
        except FileNotFoundError:
            return None
        except Unsteady:
            if not training:
                raise
            return None  # the export at the end of the run will copy it

    async def _reported(self, target: Target, root: Path, file: OwnFile) -> ExportedObject | None:
        """What an attempt reported. None if it cannot be had: an export is for the results."""
        try:
            return await self._own(target, root, file, training=True)
        except (ExportFailed, Refused, OSError) as error:
            log.warning("export: %s is left out: %s", file.key, error)
            return None

    async def _verified_bytes(self, at: Location, path: Path) -> Digest:
        return await self._patiently(
            lambda: self._prove(
                at, self._s3.put_bytes(at, read_tail(path.parents[2], path, LOG_BYTES))
            )
        )

    def _is_there(self, target: Target, at: Location, known: Digest) -> bool:
        """Whether S3 holds it, or can copy it from what was synced, instead of having it sent."""
        if self._s3.head(at) == (known.size, known.checksum):
            return True
        source = target.synced.get(known.sha256)
        if source is None or known.size > SINGLE_PUT_BYTES:
            return False
        try:
            self._s3.copy(source, at)
            return self._s3.head(at) == (known.size, known.checksum)
        except (Refused, Unreachable) as error:
            log.info("export: %s is sent: %s", at.key, error)
            return False

    def _prove(self, at: Location, known: Digest) -> Digest:
        """Ask S3 what it holds.

        Raises Unreachable (so that it is uploaded again) if that is not what we have.
        """
        found = self._s3.head(at)
        if found != (known.size, known.checksum):
            raise Unreachable(f"S3 holds {found} at {at.key}, not {(known.size, known.checksum)}")
        return known

    async def _patiently(self, work: Callable[[], Digest]) -> Digest:
        """Run blocking work in a thread, again and again with growing pauses.

        Raises ExportFailed.
        """
        async with self._uploads:
            for attempt in range(TRIES):
                try:
                    return await asyncio.to_thread(work)
                except (Unreachable, OSError) as error:
                    if isinstance(error, OSError) and not may_pass(error):
                        raise
                    log.warning("export: %s", error)
                    last: Exception = error
                    await asyncio.sleep(min(15.0, 0.2 * 2**attempt))
        raise ExportFailed(f"gave up after {TRIES} tries: {last}")

    def _finish(self, run_id: str, export_id: str, *, ok: bool, **facts: Any) -> None:
        event = self._reporter.make(
            ExportFinished, run_id=run_id, export_id=export_id, ok=ok, **facts
        )
        values = (
            "finished" if ok else "failed",
            facts.get("reason", ""),
            facts.get("manifest_sha256", ""),
            export_id,
        )

        def change(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE exports SET state = ?, reason = ?, manifest = ? WHERE id = ?", values
            )

        self._reporter.report(event, change=change)
        log.info("%s: export %s %s: %s", run_id, export_id, values[0], facts)

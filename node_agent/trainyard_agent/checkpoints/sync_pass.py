"""One pass of a run's sync: what is new goes to S3, then a list of all, then what nobody needs.

All of it blocks, in threads of low priority that read and send no more than MOST_BYTES_A_SECOND.
"""

from __future__ import annotations

import errno
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeVar

from trainyard_agent.checkpoints import best, formats, own_files, torn
from trainyard_agent.checkpoints.choosing import chosen
from trainyard_agent.checkpoints.holding import held
from trainyard_agent.checkpoints.names import order, step_of
from trainyard_agent.checkpoints.own_files import Found, OwnFile
from trainyard_agent.checkpoints.patterns import series_of
from trainyard_agent.checkpoints.presence import absent
from trainyard_agent.checkpoints.sync_brake import Brake, Stopped
from trainyard_agent.checkpoints.sync_memory import (
    Changed,
    Done,
    Memory,
    Subject,
    Superseded,
    objects_of,
)
from trainyard_agent.checkpoints.synced import BadSync, Synced, group_of, number_of
from trainyard_agent.checkpoints.verifying import MANIFEST_BYTES, NotWhole, read_manifest
from trainyard_agent.host.digests import Digest, digest, of_bytes, of_sha256
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.job_files import read_tail
from trainyard_agent.jobs import work
from trainyard_agent.jobs.fence import read_fence
from trainyard_agent.jobs.work import Brought
from trainyard_contracts import places
from trainyard_contracts.export_manifest import KeptLink
from trainyard_contracts.sync_manifest import SyncedObject, SyncLatest, SyncManifest

log = logging.getLogger(__name__)

T = TypeVar("T")

R = TypeVar("R")
#: What is on no list any more is deleted after so long: who reads an older list can end that.
GRACE_SECONDS = 3600.0
#: So much of the end of a log is copied while its job runs.
LOG_BYTES = 16 * 1024**2
#: A file of what an attempt reports grows with each step: a larger one waits for the export.
CURVES_BYTES = 16 * 1024**2
#: A file that changes while it is read is read so often in one pass; then its last copy stays.
TRIES_OF_A_FILE = 2
_TRIES_OF_S3, _FIRST_PAUSE = 4, 0.5
_PORTION = 256
#: A file that was changed later than this before it was read may change again unseen, where times
#: are coarse.
_COARSE_NS = 2_000_000_000
_BLOCK = 1024 * 1024


class SyncPass:
    """One pass; `run` may be called once."""

    def __init__(self, subject: Subject, synced: Synced, memory: Memory, brake: Brake) -> None:
        self._subject, self._synced, self._memory, self._brake = subject, synced, memory, brake
        self._there: set[str] = set()
        self._sent = 0
        self._lock = threading.Lock()

    def run(self, pool: ThreadPoolExecutor) -> Done:
        """Raises Stopped, Superseded, BadSync, Refused, Unreachable, OSError."""
        began = datetime.now(timezone.utc)
        self._take_up()
        self._must_be_there()
        groups = self._checkpoints(pool)
        own, links, left_out = self._own(pool)
        self._must_be_there()
        of_groups = [found for group in groups.values() for found in group]
        steps = [step_of(group) for group in groups]
        manifest = SyncManifest(
            run_id=self._subject.run_id,
            attempt=self._subject.attempt,
            created_at=began,
            objects=sorted([*of_groups, *own, *self._log()], key=lambda found: found.key),
            links=sorted(links, key=lambda link: link.key),
            last_step=max(steps, default=None),
        )
        latest = self._commit(manifest, left_out)
        self._memory.keep(groups)
        return Done(latest, self._sent, self._sweep())

    # -- what was there before --------------------------------------------------------------------
    def _take_up(self) -> None:
        memory = self._memory
        latest = self._latest()
        if latest is not None and latest.attempt > self._subject.attempt:
            raise Superseded(f"attempt {latest.attempt} syncs this run")
        if memory.there is None:
            names = self._synced.names()
            if latest is not None:
                memory.manifest = self._list(latest)
                memory.listed, memory.sha256 = latest.number, latest.sha256
            for found in objects_of(memory.manifest):
                if group := group_of(found.key):
                    memory.groups.setdefault(group, []).append(found)
            memory.number = max([memory.listed, *map(number_of, names)])
            memory.there = names
        self._there = memory.there

    def _latest(self) -> SyncLatest | None:
        """What cannot be read is written anew: everything is still here."""
        try:
            return self._synced.latest(self._subject.run_id)
        except BadSync as error:
            log.warning("%s: %s", self._subject.run_id, error)
            return None

    def _list(self, latest: SyncLatest) -> SyncManifest | None:
        try:
            return self._synced.manifest(latest)
        except BadSync as error:
            log.warning("%s: %s", self._subject.run_id, error)
            return None

    def _must_be_there(self) -> None:
        """An empty mount point is listed without an error: then nothing was removed by anybody."""
        mark = self._subject.root / places.ATTEMPTS / str(self._subject.attempt) / places.BUNDLE
        if absent(mark):
            raise OSError(errno.ESTALE, "the run's directory is not there", str(mark))

    # -- checkpoints ------------------------------------------------------------------------------
    def _checkpoints(self, pool: ThreadPoolExecutor) -> dict[str, list[SyncedObject]]:
        """The newest whole one of each kind, and those from before that are still needed."""
        root, known = self._subject.root, self._memory.groups
        found: dict[str, list[SyncedObject]] = {}
        done: set[str] = set()
        wanted = best.names(root)
        selection = "last" if self._subject.checkpoints else "none"
        shutil.rmtree(root / places.SYNC_HELD, ignore_errors=True)
        for path, group, kind in chosen(root, self._subject.checkpoint_directory, selection):
            if (kind in done and path.name not in wanted) or group in found:
                done.add(kind)
                continue
            files = known.get(group) or self._whole(pool, path, group)
            if files is not None:
                found[group] = files
                done.add(kind)
        for group, files in known.items():
            if group not in found and (not self._pruned(group) or not _newer(group, found)):
                found[group] = files
        return found

    def _pruned(self, group: str) -> bool:
        own = group.startswith(f"{places.CHECKPOINTS}/")
        top = self._subject.root / self._subject.checkpoint_directory
        return absent(top / group.rpartition("/")[2] if own else self._subject.root / group)

    def _whole(self, pool: ThreadPoolExecutor, path: Path, group: str) -> list[SyncedObject] | None:
        """All files of a checkpoint, sent; None for one that is not whole, or pruned meanwhile."""
        try:
            manifest = read_manifest(path, self._subject.run_id)
            with held(self._subject.root, path, manifest) as place:
                files = [(item.path, item.bytes, item.sha256) for item in manifest.files]
                sent = self._each(pool, lambda file: self._part(place, group, *file), files)
                known = digest(place / places.CHECKPOINT_MANIFEST, most=MANIFEST_BYTES)
                self._send(place / places.CHECKPOINT_MANIFEST, known)
        except (NotWhole, Changed) as error:
            log.warning("%s: %s is not synced: %s", self._subject.run_id, group, error)
            return None
        except FileNotFoundError:
            return None  # it was pruned
        except OSError as error:
            log.warning("%s: %s cannot be read now: %s", self._subject.run_id, group, error)
            return None
        return [*sent, _object(f"{group}/{places.CHECKPOINT_MANIFEST}", known, 0o644)]

    def _part(self, place: Path, group: str, name: str, size: int, sha256: str) -> SyncedObject:
        """One file of it. S3 compares the hash, so it is not read before it is sent."""
        path = place / name
        about = path.lstat()
        if about.st_size != size:
            raise NotWhole(f"{name} has {about.st_size} bytes, the manifest says {size}")
        known = of_sha256(size, sha256) or digest(path, below=place, pause=self._reads(size))
        if known.sha256 != sha256:
            raise NotWhole(f"{name} does not have the hash that the manifest says")
        self._send(path, known)
        return _object(f"{group}/{name}", known, about.st_mode & 0o777, about.st_mtime_ns)

    # -- the program's own files ------------------------------------------------------------------
    def _own(self, pool: ThreadPoolExecutor) -> tuple[list[SyncedObject], list[KeptLink], int]:
        """The program's files and links, and how many are left out."""
        root, memory = self._subject.root, self._memory
        if not memory.submission.files:
            memory.take(own_files.brought(root))
        parts: list[Found] = [
            own_files.output(root),
            own_files.working(
                root,
                self._subject.checkpoint_directory,
                same=self._as_brought,
                brought=memory.submission,
            ),
        ]
        own = [file for part in parts for file in part.files]
        files = [*own, *own_files.curves(root, CURVES_BYTES)]
        before = {found.key: found for found in objects_of(memory.manifest)}
        found = [copy for copy in map(self._unchanged, files) if copy is not None]
        same = {copy.key for copy in found}
        rest = [file for file in files if file.key not in same]
        copies = self._each(pool, lambda file: self._own_file(file, before), rest)
        found += [copy for copy in copies if copy is not None]
        keys = {file.key for file in files}
        for key in [key for key in memory.digests if key not in keys]:
            del memory.digests[key]
        links = [link for part in parts for link in part.links]
        copied = {copy.key for copy in found}
        missing = sum(file.key not in copied for file in own)
        return found, links, sum(part.left_out for part in parts) + missing

    def _unchanged(self, file: OwnFile) -> SyncedObject | None:
        """The file if it is in S3 already, as far as its size and time say."""
        known = self._memory.digests.get(file.key)
        if known is None or known[0] != (file.size, file.modified_ns):
            return None
        there = known[1].sha256 in self._there
        return _object(file.key, known[1], file.mode, file.modified_ns) if there else None

    def _own_file(self, file: OwnFile, before: Mapping[str, SyncedObject]) -> SyncedObject | None:
        """The file as it is at one moment. Of one that never keeps still the last copy stays."""
        for _ in range(TRIES_OF_A_FILE):
            try:
                if self._has_a_save_like_it(file.key, before) and self._torn(file):
                    break
                known = self._digest(file)
                self._send(file.path, known)
                return _object(file.key, known, file.mode, file.modified_ns)
            except FileNotFoundError:
                return None  # the program removed it
            except (Changed, OSError) as error:
                log.info("%s: %s is not synced: %s", self._subject.run_id, file.key, error)
                self._memory.digests.pop(file.key, None)
        return before.get(file.key)

    @staticmethod
    def _has_a_save_like_it(key: str, before: Mapping[str, SyncedObject]) -> bool:
        """A torn one is better than nothing, and worse than one of its series that is there."""
        series = series_of(key)
        return key in before or any(series_of(other) == series for other in before)

    def _torn(self, file: OwnFile) -> bool:
        """Whether its format proves that the program is just writing it."""
        known = self._memory.digests.get(file.key)
        if known is not None and known[0] == (file.size, file.modified_ns):
            return False
        root = self._subject.root
        try:
            formats.proves(root, str(file.path.relative_to(root)), self._reads(file.size))
        except torn.Torn:
            return True
        return False

    def _digest(self, file: OwnFile) -> Digest:
        """Of the file's bytes up to the size that it had: it may grow while it is read.

        Raises Changed for one that shrank: who writes it anew has emptied it first.
        """
        stamp, known = (file.size, file.modified_ns), self._memory.digests.get(file.key)
        if known is not None and known[0] == stamp:
            return known[1]
        now = time.time_ns()
        pause = self._reads(file.size)
        found = digest(file.path, below=self._subject.root, pause=pause, most=file.size)
        if found.size < file.size:
            raise Changed(f"{file.key} became shorter")
        if file.modified_ns < now - _COARSE_NS:
            self._memory.digests[file.key] = (stamp, found)
        return found

    def _as_brought(self, top: Path, file: OwnFile, known: Brought) -> bool:
        if known.bytes != file.size:
            return False
        stamp, before = (file.size, file.modified_ns), self._memory.brought.get(file.key)
        if before is not None and before[0] == stamp:
            return before[1]
        self._brake.took(file.size)
        same = work.is_as_brought(top, file.path, known)
        if file.modified_ns < time.time_ns() - _COARSE_NS:
            self._memory.brought[file.key] = (stamp, same)
        return same

    def _log(self) -> list[SyncedObject]:
        """The end of the attempt's log; those of earlier attempts are kept already."""
        number = self._subject.attempt
        path = self._subject.root / places.ATTEMPTS / str(number) / places.JOB_LOG
        try:
            body = read_tail(self._subject.root, path, LOG_BYTES)
        except OSError:
            return []  # the job has printed nothing yet, or put something else there
        known = of_bytes(body)
        if known.sha256 not in self._there:
            self._brake.took(known.size)
            self._synced.s3.put_bytes(self._synced.object(known.sha256), body)
            self._there.add(known.sha256)
        return [_object(places.log_name(number), known, 0o644)]

    # -- sending ----------------------------------------------------------------------------------
    def _reads(self, size: int) -> Callable[[], None]:
        """What is called after each block of a file of that size."""
        block = min(size, _BLOCK)
        return lambda: self._brake.took(block)

    def _send(self, path: Path, known: Digest) -> None:
        """Raises Changed where the file has not these bytes any more."""
        if known.sha256 in self._there:
            return
        at = self._synced.object(known.sha256)
        for again in range(_TRIES_OF_S3):
            try:
                self._synced.s3.put_file(at, path, known, pause=self._brake.took)
                break
            except Refused as error:
                if error.status != 400:
                    raise
                raise Changed(f"{path.name} is not what it was: {error}") from error
            except Unreachable:
                if path.lstat().st_size < known.size:
                    raise Changed(f"{path.name} became shorter") from None
                if again == _TRIES_OF_S3 - 1:
                    raise
                if self._brake.stop.wait(_FIRST_PAUSE * 2**again):
                    raise Stopped from None
        with self._lock:
            self._there.add(known.sha256)
            self._sent += known.size

    def _each(
        self, pool: ThreadPoolExecutor, call: Callable[[T], R], things: Sequence[T]
    ) -> list[R]:
        found: list[R] = []
        for start in range(0, len(things), _PORTION):
            self._brake.took(0)
            found += pool.map(call, things[start : start + _PORTION])
        return found

    # -- the list ---------------------------------------------------------------------------------
    def _commit(self, manifest: SyncManifest, left_out: int) -> SyncLatest:
        """Write the list if it says something new, and put it in force."""
        memory = self._memory
        self._still_newest()
        if memory.manifest is None or _said(memory.manifest) != _said(manifest):
            memory.number += 1
            sha256 = self._synced.write(manifest, memory.number)
            memory.listed, memory.sha256, memory.manifest = memory.number, sha256, manifest
            self._there.add(places.sync_manifest(memory.number))
        latest = SyncLatest(
            run_id=manifest.run_id,
            attempt=manifest.attempt,
            at=manifest.created_at,
            number=memory.listed,
            sha256=memory.sha256,
            objects=len(manifest.objects),
            bytes=sum(found.bytes for found in manifest.objects),
            last_step=manifest.last_step,
            left_out=left_out,
        )
        self._still_newest()
        self._synced.put_in_force(latest)
        return latest

    def _still_newest(self) -> None:
        self._brake.took(0)
        if read_fence(self._subject.root) > self._subject.attempt:
            raise Superseded("a newer attempt is there")

    def _sweep(self) -> str:
        """Delete what has been on no list for GRACE_SECONDS; why that is not possible, or ''."""
        memory, now = self._memory, time.monotonic()
        named = {found.sha256 for found in objects_of(memory.manifest)}
        named.add(places.sync_manifest(memory.listed))
        memory.garbage = {
            name: memory.garbage.get(name, now)
            for name in {*self._there, *memory.garbage}
            if name not in named
        }
        due = [name for name, at in memory.garbage.items() if now - at >= GRACE_SECONDS]
        # Whatever S3 answers, some of it may be gone: what is needed again is sent again.
        self._there.difference_update(due)
        try:
            self._synced.delete(due)
        except Refused as error:
            return str(error)[:300]
        except Unreachable as error:
            log.info("%s: what is old is deleted later: %s", self._subject.run_id, error)
            return ""
        for name in due:
            del memory.garbage[name]
        return ""


def _said(manifest: SyncManifest) -> tuple[list[SyncedObject], list[KeptLink]]:
    return manifest.objects, manifest.links


def _object(key: str, known: Digest, mode: int, modified_ns: int = 0) -> SyncedObject:
    return SyncedObject(
        key=key,
        bytes=known.size,
        sha256=known.sha256,
        checksum=known.checksum,
        mode=mode,
        modified_ns=max(0, modified_ns),
    )


def _newer(group: str, found: Iterable[str]) -> bool:
    """Whether a newer checkpoint of the same kind is among these."""
    kind = group.rpartition("/")[0]
    return any(other.rpartition("/")[0] == kind and order(other) > order(group) for other in found)

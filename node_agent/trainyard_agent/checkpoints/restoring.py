"""Brings back what was synced or exported, where a run goes on with an empty shared filesystem."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

from trainyard_agent.checkpoints.checkpoints import NotWhole, order, read_manifest, step_of
from trainyard_agent.checkpoints.own_files import LINKS, OURS
from trainyard_agent.checkpoints.starting import note
from trainyard_agent.checkpoints.synced import BadSync, Synced, group_of
from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.background import in_own_thread
from trainyard_agent.host.configuration import run_dir
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.job_files import may_pass
from trainyard_agent.host.patience import patiently
from trainyard_agent.host.s3 import S3, Location, digest
from trainyard_agent.host.signed_http import Refused
from trainyard_agent.jobs.work import work_dir
from trainyard_contracts import places
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.bundle_parts import SyncOrder
from trainyard_contracts.export_manifest import ExportManifest, KeptLink
from trainyard_contracts.job_bundle import JobBundle
from trainyard_contracts.result_events import RunRestored
from trainyard_contracts.trees import leads_inside

log = logging.getLogger(__name__)
T = TypeVar("T")

AT_ONCE = 8
_TRIES = 5
_MOST_SKIPPED = 20
#: So many paths fit into an event. Of more, none is said, so that none is taken for gone.
_MOST_BROUGHT = 1000
#: So many links of a list are made: twice LINKS of `own_files`, for its two parts.
MOST_LINKS = 2 * LINKS
_OPEN = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Lacking(Exception):
    """An object is not there as its list says."""


class Stopped(Exception):
    """The agent ends; the next submit begins again, with what is there."""


@dataclass(frozen=True)
class Remote:
    """One file as it lies in S3; `key` is as an export has it. `modified_ns`: 0 = not known."""

    key: str
    at: Location
    size: int
    sha256: str
    mode: int
    modified_ns: int = 0


@dataclass(frozen=True)
class Source:
    """What is brought: the newest list of the two."""

    kind: Literal["sync", "export"]
    at: datetime
    files: Sequence[Remote]
    links: Sequence[KeptLink]


@dataclass
class State:
    """What the threads of one restoring have in common."""

    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    total: int = 0
    done: int = 0
    skipped: list[str] = field(default_factory=list)

    def check(self) -> None:
        if self.stop.is_set():
            raise Stopped

    def begin(self, size: int) -> None:
        """So many bytes are to be brought."""
        self.total = size

    def note(self, size: int) -> None:
        with self.lock:
            self.done += size

    def skip(self, what: str, why: object) -> None:
        log.warning("%s is not restored: %s", what, why)
        with self.lock:
            self.skipped.append(f"{what}: {why}"[:300])

    def words(self) -> str:
        if not self.total:
            return "its list is being read"
        return f"{self.done / 1e6:.0f} of {self.total / 1e6:.0f} MB are there"


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


@dataclass(frozen=True)
class Restorer:
    """One run; all of it runs in threads."""

    s3: S3
    config: AgentConfig
    root: Path
    bundle: JobBundle
    order: SyncOrder
    state: State

    def run(self) -> dict[str, Any] | None:
        """What RunRestored says; None where there is nothing. Raises CommandRefused, OSError."""
        began = time.monotonic()
        source = self._newest()
        if source is None:
            return None
        self.state.begin(sum(remote.size for remote in source.files))
        self.root.mkdir(parents=True, exist_ok=True)
        groups: dict[str, list[Remote]] = {}
        own: list[tuple[Remote, Path]] = []
        for remote in source.files:
            if group := group_of(remote.key):
                groups.setdefault(group, []).append(remote)
            elif (place := self._place(remote.key)) is not None:
                own.append((remote, place))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            whole = [group for group in groups if self._checkpoint(pool, group, groups[group])]
            files = sum(pool.map(lambda file: self._own(*file), own))
        self._links(source)
        brought = sorted(str(self._home(group).relative_to(self.root)) for group in whole)
        if self.bundle.start_from is not None and (whole or files):
            note(self.root, self.bundle.start_from)  # the other run need not be here
        age = datetime.now(timezone.utc) - source.at
        return {
            "source": source.kind,
            "age_seconds": max(0.0, age.total_seconds()),
            "step": max((step_of(group) for group in whole), default=None),
            "checkpoints": len(whole),
            "brought": brought if len(brought) <= _MOST_BROUGHT else None,
            "files": files,
            "bytes": self.state.done,
            "seconds": time.monotonic() - began,
            "skipped": self.state.skipped[:_MOST_SKIPPED],
        }

    # -- lists ------------------------------------------------------------------------------------
    def _newest(self) -> Source | None:
        found = [source for source in (self._synced(), self._exported()) if source is not None]
        return max(found, key=lambda source: source.at, default=None)

    def _synced(self) -> Source | None:
        """What was synced. From now on it belongs to this attempt."""
        synced = Synced(self.s3, Location(self.config.data_bucket, self.order.prefix))
        try:
            latest = self._patiently(lambda: synced.latest(self.bundle.run_id))
            if latest is None:
                return None
            if latest.attempt > self.bundle.attempt:
                words = f"attempt {latest.attempt} syncs this run; this one must not run"
                raise CommandRefused("fenced", words)
            manifest = self._patiently(lambda: synced.manifest(latest))
        except BadSync as error:
            self.state.skip("what was synced", error)
            return None
        if manifest is None:
            return None
        claimed = latest.changed(attempt=self.bundle.attempt)
        self._patiently(lambda: synced.put_in_force(claimed))
        files = [
            Remote(
                item.key,
                synced.object(item.sha256),
                item.bytes,
                item.sha256,
                item.mode,
                item.modified_ns,
            )
            for item in manifest.objects
        ]
        return Source("sync", latest.at, files, manifest.links)

    def _exported(self) -> Source | None:
        run = places.run_prefix(self.config.runs_prefix, self.bundle.run_id)
        top = Location(self.config.data_bucket, places.export_prefix(run))
        body = self._patiently(lambda: self.s3.get(top.under(places.EXPORT_MANIFEST)))
        if body is None:
            return None
        try:
            manifest = ExportManifest.model_validate_json(body)
        except ValueError as error:
            self.state.skip(places.EXPORT_MANIFEST, str(error).splitlines()[0])
            return None
        if manifest.run_id != self.bundle.run_id:
            return None
        files = [
            Remote(item.key, top.under(item.key), item.bytes, item.sha256, 0o644)
            for item in manifest.objects
        ]
        return Source("export", manifest.created_at, files, manifest.links)

    # -- places -----------------------------------------------------------------------------------
    def _place(self, key: str) -> Path | None:
        """Where a file of the program's belongs; None for logs and what nobody starts from."""
        first, _, rest = key.partition("/")
        tops = {
            places.OUTPUT: self.root / places.OUTPUT,
            "working": work_dir(self.root),
            "run": self.root,
        }
        parts = rest.split("/")
        if first not in tops or (first == "run" and parts[0] in OURS):
            return None
        return tops[first].joinpath(*parts) if _plain(rest) else None

    def _home(self, group: str) -> Path:
        """Where a checkpoint belongs: a trainer's may have a directory that the spec names."""
        above, _, name = group.rpartition("/")
        return (
            self.root
            / (self.bundle.checkpoint_directory if above == places.CHECKPOINTS else above)
            / name
        )

    def _checkpoint(self, pool: ThreadPoolExecutor, group: str, files: Sequence[Remote]) -> bool:
        """Bring a checkpoint: whole, beside its place, then renamed. Whether it is there."""
        target = self._home(group)
        if order(target.name) == (-1, -1) or not _plain(group):
            return False
        temporary = target.with_name(f".tmp-restored-{target.name}")
        if target.is_dir():
            return True
        try:
            names = {remote.key.removeprefix(f"{group}/"): remote for remote in files}
            if not all(map(_plain, names)):
                raise Lacking("a name in it leads elsewhere")
            list(pool.map(lambda one: self._fetch(one[1], temporary / one[0]), names.items()))
            manifest = read_manifest(temporary, self.bundle.run_id)
            for item in manifest.files:
                if item.path not in names or names[item.path].sha256 != item.sha256:
                    raise Lacking(f"{item.path} is not what its manifest says")
        except (Lacking, NotWhole) as error:
            self.state.skip(group, error)
            shutil.rmtree(temporary, ignore_errors=True)
            return False
        except OSError as error:
            if may_pass(error):
                raise
            self.state.skip(group, error.strerror or error)
            return False
        os.rename(temporary, target)
        return True

    def _own(self, remote: Remote, path: Path) -> bool:
        """Bring a file of the program's, over what the submission brought. Whether it is there."""
        try:
            self._fetch(remote, path)
        except Lacking as error:
            self.state.skip(remote.key, error)
            return False
        except OSError as error:
            if may_pass(error):
                raise
            self.state.skip(remote.key, error.strerror or error)
            return False
        return True

    def _links(self, source: Source) -> None:
        """Make the program's links, after its files: none of those is brought through a link."""
        files = {remote.key for remote in source.files}
        for link in source.links[:MOST_LINKS]:
            self.state.check()
            path = self._place(link.key)
            if path is None:
                continue
            if not leads_inside(link.key.partition("/")[2], link.target):
                self.state.skip(link.key, "the link leads out of its directory")
            elif link.key in files:
                self.state.skip(link.key, "a file of the list has the link's name")
            else:
                self._link(path, link)
        if len(source.links) > MOST_LINKS:
            self.state.skip(
                "links", f"the list has {len(source.links)}, at most {MOST_LINKS} are made"
            )

    def _link(self, path: Path, link: KeptLink) -> None:
        """Make it, over a file or a link that the submission brought, and over no directory."""
        try:
            _directories(self.root, path.parent)
            if path.is_symlink() and os.readlink(path) == link.target:
                return
            temporary = _beside(path, link.key)
            temporary.unlink(missing_ok=True)  # of a restoring that was killed
            try:
                temporary.symlink_to(link.target)
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            if may_pass(error):
                raise
            self.state.skip(link.key, error.strerror or error)

    def _fetch(self, remote: Remote, path: Path) -> None:
        """The file is there with the bytes of its list, or as before. Raises Lacking, OSError."""
        self.state.check()
        _directories(self.root, path.parent)
        if not _same(path, remote):
            temporary = _beside(path, remote.key)
            try:
                with os.fdopen(os.open(temporary, _OPEN, 0o600), "w+b") as stream:
                    there = self._patiently(lambda: self._get(remote, stream))
                    os.fchmod(stream.fileno(), remote.mode)
                    if remote.modified_ns:  # which of two saves is newer is known by it
                        times = (remote.modified_ns, remote.modified_ns)
                        os.utime(stream.fileno(), ns=times)
                    os.fsync(stream.fileno())
                if not there or not _same(temporary, remote):
                    raise Lacking("was changed" if there else "is not there any more")
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
        self.state.note(remote.size)

    def _get(self, remote: Remote, stream: IO[bytes]) -> bool:
        return self.s3.get_file(remote.at, stream)

    def _patiently(self, call: Callable[[], T]) -> T:
        return patiently(call, self.state, _refused, _TRIES)


def _refused(error: Refused) -> CommandRefused:
    return CommandRefused(
        "restore-refused",
        "the run's checkpoints are not on this cluster's filesystem, and S3 refuses to give back "
        f"what was copied there: {error}",
    )


def _plain(name: str) -> bool:
    """Whether a list's name stays where it belongs: a job may have written the list."""
    return not {"", ".", ".."} & {*name.split("/")} and "\0" not in name


def _beside(path: Path, key: str) -> Path:
    """Where something is made before it is renamed to its place."""
    return path.with_name(f".restoring-{sha256(key.encode()).hexdigest()[:16]}")


def _directories(root: Path, directory: Path) -> None:
    """Make them, through no link. Raises OSError."""
    here = root
    for part in directory.relative_to(root).parts:
        here /= part
        try:
            here.mkdir()
        except FileExistsError:
            if not stat.S_ISDIR(here.lstat().st_mode):
                words = "a link or a file is in the place of a directory"
                raise NotADirectoryError(errno.ENOTDIR, words) from None


def _same(path: Path, remote: Remote) -> bool:
    try:
        about = path.lstat()
        if not stat.S_ISREG(about.st_mode) or about.st_size != remote.size:
            return False
        return digest(path).sha256 == remote.sha256
    except FileNotFoundError:
        return False

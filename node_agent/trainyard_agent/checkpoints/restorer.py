"""Brings one run back to an empty filesystem, file by file."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, TypeVar

from trainyard_agent.checkpoints.names import order, step_of
from trainyard_agent.checkpoints.own_files import LINKS, OURS
from trainyard_agent.checkpoints.restore_state import Lacking, Remote, Source, State
from trainyard_agent.checkpoints.starting import note
from trainyard_agent.checkpoints.synced import BadSync, Synced, group_of
from trainyard_agent.checkpoints.verifying import NotWhole, read_manifest
from trainyard_agent.host.digests import digest
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.http_errors import Refused
from trainyard_agent.host.job_files import may_pass
from trainyard_agent.host.locations import Location
from trainyard_agent.host.patience import patiently
from trainyard_agent.host.s3 import S3
from trainyard_agent.jobs.work import work_dir
from trainyard_contracts import places
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.bundle_parts import SyncOrder
from trainyard_contracts.export_manifest import ExportManifest, KeptLink
from trainyard_contracts.job_bundle import JobBundle
from trainyard_contracts.trees import leads_inside

T = TypeVar("T")

AT_ONCE = 8
_TRIES = 5
_MOST_SKIPPED = 20
#: So many paths fit into an event. Of more, none is said, so that none is taken for gone.
_MOST_BROUGHT = 1000
#: So many links of a list are made: twice LINKS of `own_files`, for its two parts.
MOST_LINKS = 2 * LINKS
_OPEN = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


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

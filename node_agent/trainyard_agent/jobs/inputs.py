"""Brings what a run's program reads to the shared filesystem, once, and puts it where it is named.

Data are there whole or not at all: they are fetched beside their place and renamed.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from trainyard_agent.host.atomic_file import replace_file
from trainyard_agent.host.background import in_own_thread
from trainyard_agent.host.configuration import run_dir
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.locations import Location
from trainyard_agent.host.s3 import S3
from trainyard_agent.jobs import copy_progress, unpack_state, work
from trainyard_agent.jobs.copy_progress import Progress
from trainyard_agent.jobs.copying import Copy
from trainyard_agent.jobs.input_places import Brought, Place, check_mounted, check_paths, places_of
from trainyard_agent.jobs.unpack_state import State
from trainyard_agent.jobs.unpacker import Unpacker, sync
from trainyard_contracts import places
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.amounts import counted, size
from trainyard_contracts.inputs import S3Prefix
from trainyard_contracts.job_bundle import JobBundle

log = logging.getLogger(__name__)
STOPPED = (copy_progress.Stopped, unpack_state.Stopped)


@dataclass
class Coming:
    """Data on their way to a place; every run that reads something there waits for the same."""

    run_id: str
    task: asyncio.Task[None]
    words: Callable[[], str]
    stop: Callable[[], None]
    foreign: bool = False
    """Another run brings them, perhaps from elsewhere."""


class Inputs:
    """One bringing at a time for each place."""

    def __init__(self, config: AgentConfig, s3: S3) -> None:
        self._config, self._s3 = config, s3
        self._running: dict[Path, Coming] = {}

    def bring(self, bundle: JobBundle, bucket: str) -> Coming | None:
        """Start or join what is not there yet; None where all is there. Raises CommandRefused."""
        check_paths(self._config, bundle)
        for place in places_of(self._config, bundle):
            if place.given.mounted:
                check_mounted(place)
                continue
            if place.record.exists() and os.path.lexists(place.target):
                continue
            if place.target not in self._running:
                self._running[place.target] = self._start(place, bundle, bucket)
            coming = self._running[place.target]
            return replace(coming, foreign=coming.run_id != bundle.run_id)
        return None

    def _start(self, place: Place, bundle: JobBundle, bucket: str) -> Coming:
        progress, state = Progress(), State()
        bringing = Bringing(self._s3, place, bundle, bucket, progress, state)

        def stop() -> None:
            progress.stop.set()
            state.stop.set()

        async def run() -> None:
            try:
                await in_own_thread(bringing.run)
            finally:
                stop()

        task = asyncio.create_task(run())
        task.add_done_callback(lambda ended: self._ended(place, ended))
        words = state.words if place.given.code else progress.words
        return Coming(
            bundle.run_id, task, lambda: f"{place.what}: {progress.waits_for or words()}", stop
        )

    def stop(self, run_id: str) -> None:
        """Nobody wants the run's own copies any more; what is there is taken up by a resume."""
        root = run_dir(self._config, run_id)
        for target, coming in self._running.items():
            if target.is_relative_to(root):
                coming.stop()

    def _ended(self, place: Place, task: asyncio.Task[None]) -> None:
        del self._running[place.target]
        if not task.cancelled() and (error := task.exception()) is not None:
            # The next submit meets it again.
            log.warning("%s: %s could not be brought: %s", place.target, place.what, error)

    @staticmethod
    async def wait(coming: Coming, deadline: float) -> None:
        """Until it is there. Raises what it failed with, or CommandRefused at the deadline."""
        await asyncio.wait({coming.task}, timeout=max(0.0, deadline - time.monotonic()))
        if not coming.task.done():
            raise CommandRefused("fetching", f"{coming.words()}; the same command again is safe")
        try:
            coming.task.result()
        except STOPPED as stopped:
            words = "the copy was stopped; the same command goes on with it"
            raise CommandRefused("fetching", words) from stopped
        except CommandRefused as refused:
            if not coming.foreign:
                raise
            words = "another run could not bring its data there; the same command brings ours"
            raise CommandRefused("fetching", words) from refused

    def lay(self, bundle: JobBundle) -> None:
        """Make the links by which the program finds them. Raises CommandRefused, OSError."""
        for place in places_of(self._config, bundle):
            if place.given.mounted:
                place.target.parent.mkdir(parents=True, exist_ok=True)
                _link(place, place.target, place.given.mounted, again=bundle.attempt > 1)
            if place.link is not None:
                _directories(place, work.work_dir(run_dir(self._config, bundle.run_id)))
                leads = os.path.relpath(place.target, place.link.parent)
                if not _is_laid(place.link, leads):
                    # A run that was refused for it at first is refused when it is resumed, too.
                    again = bundle.attempt > 1 and not self._submitted(bundle, place.given.path)
                    _link(place, place.link, leads, again=again)

    def _submitted(self, bundle: JobBundle, path: str) -> bool:
        """Whether the submission has something at this path of the working directory."""
        root = run_dir(self._config, bundle.run_id)
        there = os.path.lexists(work.work_dir(root) / path)
        tree = work.unpacked_tree(root, bundle) if there else None
        if tree is None:
            return False
        names = [file.path for file in tree.files] + [link.path for link in tree.links]
        return any(
            name == path or name.startswith(f"{path}/") for name in [*names, *tree.directories]
        )

    def words(self, bundle: JobBundle) -> str:
        """What the program reads, in words; '' without inputs."""
        try:
            return ", ".join(_said(place) for place in places_of(self._config, bundle))
        except CommandRefused:  # the job is in: a link that came later changes nothing of that
            return ""


@dataclass(frozen=True)
class Bringing:
    """One input; all of it runs in a thread."""

    s3: S3
    place: Place
    bundle: JobBundle
    bucket: str
    progress: Progress
    state: State

    def run(self) -> None:
        """Raises CommandRefused, BadBundle, OSError."""
        place = self.place
        for directory in (place.target.parent, place.record.parent):
            directory.mkdir(parents=True, exist_ok=True)
        with _alone(place, self.progress):
            self._run()

    def _run(self) -> None:
        place = self.place
        known = _read(place.marker)
        if os.path.lexists(place.target):
            if known is None:
                raise place.refused(
                    "path",
                    f"'{place.given.path}' is there, and no run brought it there; give another "
                    "path, or remove it",
                )
            self._check_same(known)
        else:
            known = self._brought()
        _write(place.record, known)
        shutil.rmtree(place.stage, ignore_errors=True)

    def _check_same(self, known: Brought) -> None:
        """Another run has brought it; are these the data that this one names?"""
        place = self.place
        if known.source != place.source:
            raise place.refused(
                "path",
                f"'{place.given.path}' has data of {known.source}; give another path, or remove it",
            )
        if place.given.code or place.own:
            return
        listing = place.record.with_suffix(".listing")
        now = self._copy().list_to(listing)
        listing.unlink()
        if now.sha256 != known.listing:
            raise place.refused(
                "source",
                f"the objects have changed since they were copied to '{place.given.path}' at "
                f"{known.at:%Y-%m-%d %H:%M}; give another path, or remove what is there",
            )

    def _brought(self) -> Brought:
        """Fetch, then note what it is, then the rename that makes it visible."""
        place = self.place
        whole, listing, objects, size = self._unpacked() if place.given.code else self._copied()
        sync(whole)  # what the rename makes visible must not be lost when the machine goes down
        known = Brought(
            source=place.source,
            listing=listing,
            objects=objects,
            bytes=size,
            seconds=round(self.progress.seconds, 1),
            at=datetime.now(timezone.utc),
        )
        _write(place.marker, known)
        whole.rename(place.target)
        return known

    def _copy(self) -> Copy:
        source = S3Prefix.of(self.place.given.source)
        what = f"{self.place.what}.source"
        return Copy(self.s3, source, self.place.stage, what, self.progress)

    def _copied(self) -> tuple[Path, str, int, int]:
        copy = self._copy()
        found = copy.run()
        return copy.whole, found.sha256, found.objects, found.bytes

    def _unpacked(self) -> tuple[Path, str, int, int]:
        code = self.place.given.code
        assert code is not None
        data = self.bundle.changed(code=code, files={})
        at = Location(self.bucket, code.prefix)
        DataUnpacker(self.s3, at, self.place.stage, data, self.state, self.place.what).run()
        whole = self.place.stage / places.WORK
        files = [path for path in whole.rglob("*") if path.is_file() and not path.is_symlink()]
        return whole, "", len(files), sum(path.stat().st_size for path in files)


@contextlib.contextmanager
def _alone(place: Place, progress: Progress) -> Iterator[None]:
    """Clusters that share the filesystem bring to a shared place one after the other.

    The lock goes with the process. Raises Stopped, OSError.
    """
    if place.own:
        yield
        return
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(place.lock, flags, 0o666)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress.wait(f"another cluster brings data to '{place.given.path}'")
        yield
    finally:
        os.close(descriptor)


class DataUnpacker(Unpacker):
    """Leaves the tree beside its place, for the one rename that all inputs have."""

    @property
    def stage(self) -> Path:
        return self.root

    def _move(self, top: Path, document: bytes) -> None:
        pass


def _directories(place: Place, top: Path) -> None:
    """Of the link; through no link, and in no file's place."""
    assert place.link is not None
    here = top
    for part in place.link.relative_to(top).parts[:-1]:
        here /= part
        if here.is_symlink() or (here.exists() and not here.is_dir()):
            raise place.refused("path", f"'{here.relative_to(top)}' is no directory of its own")
        here.mkdir(exist_ok=True)


def _link(place: Place, link: Path, leads: str, *, again: bool) -> None:
    """What the program itself put in the link's place stays there; at first there is nothing."""
    if _is_laid(link, leads):
        return
    if not os.path.lexists(link):
        link.symlink_to(leads)
    elif not again:
        raise place.refused(
            "path", f"'{place.given.path}' is there already; give another path, or leave it out"
        )
    else:
        log.warning("%s: something else is at %s now; it stays", place.what, link)


def _is_laid(link: Path, leads: str) -> bool:
    return link.is_symlink() and os.readlink(link) == leads


def _said(place: Place) -> str:
    known = _read(place.record)
    if place.given.mounted:
        return f"'{place.given.path}' (mounted at {place.given.mounted})"
    if known is None:
        return f"'{place.given.path}'"
    return (
        f"'{place.given.path}' ({counted(known.objects, 'object')}, {size(known.bytes)}, brought "
        f"in {known.seconds:.0f} s at {known.at:%Y-%m-%d %H:%M:%S} UTC)"
    )


def _read(path: Path) -> Brought | None:
    try:
        return Brought.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None


def _write(path: Path, known: Brought) -> None:
    replace_file(path, known.model_dump_json(by_alias=True, indent=1).encode())

"""Gives a run the checkpoint of another run to start from, before its first job is submitted.

It is there whole or not at all, once: what its program removes later does not come back. All is
safe to repeat after a kill at any line.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from trainyard_agent.checkpoints import kept, putting_back
from trainyard_agent.checkpoints.presence import absent
from trainyard_agent.checkpoints.torn import Torn
from trainyard_agent.checkpoints.verifying import NotWhole, read_manifest, verify
from trainyard_agent.host.atomic_file import replace_file
from trainyard_agent.host.background import in_own_thread
from trainyard_agent.host.digests import digest
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.job_files import may_pass
from trainyard_agent.host.locations import Location
from trainyard_agent.host.s3 import S3
from trainyard_agent.jobs import work
from trainyard_contracts import places
from trainyard_contracts.base import relative_path
from trainyard_contracts.bundle_parts import BundleStart
from trainyard_contracts.job_bundle import JobBundle

log = logging.getLogger(__name__)

# In a run's directory of attempts: the checkpoint that it began with was brought.
_MARK = "started-from.json"
# In a run's directory: what is brought from S3 for it.
_STAGE = f"{work.UNPACKING}start"
_AT_ONCE = 8
# A file system on which a file cannot have two names.
_NO_LINKS = frozenset({errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS})


def start_from(root: Path, bundle: JobBundle, s3: S3, bucket: str) -> None:
    """Read the other run's checkpoint whole, then put it where the program looks for its own.

    Raises CommandRefused, OSError.
    """
    start = bundle.start_from
    assert start is not None
    source = root.parent / start.run_id / start.path
    try:
        relative_path(start.path)
        if start.export and absent(source):
            source = _exported(root, start, s3, bucket)
        verify(source, start.run_id)
    except (NotWhole, ValueError) as error:
        raise _refused(start, str(error)) from error
    if places.is_own_checkpoint(start.path):
        _as_own(source, root / bundle.checkpoint_directory, bundle.run_id, start.step)
    else:
        _as_the_programs(root, source, start)
    shutil.rmtree(root / _STAGE, ignore_errors=True)
    note(root, start)


def note(root: Path, start: BundleStart) -> None:
    """The run has what it began with, or what it made of that: it is not brought again."""
    mark = root / places.ATTEMPTS / _MARK
    mark.parent.mkdir(parents=True, exist_ok=True)
    replace_file(mark, start.model_dump_json(by_alias=True).encode())


def _exported(root: Path, start: BundleStart, s3: S3, bucket: str) -> Path:
    """Bring it from S3; what an agent brought that died is not brought again.

    Raises CommandRefused, NotWhole, OSError, ValueError.
    """
    at, into = Location(bucket, start.export), root / _STAGE / Path(start.path).name
    into.mkdir(parents=True, exist_ok=True)

    def bring(name: str, sha256: str = "") -> None:
        path = into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not (sha256 and path.exists() and digest(path).sha256 == sha256):
            with path.open("wb") as stream:
                if not s3.get_file(at.under(name), stream):
                    raise NotWhole(f"s3://{bucket}/{at.key}/{name} is not there")

    try:
        bring(places.CHECKPOINT_MANIFEST)
        files = read_manifest(into, start.run_id).files
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda file: bring(file.path, file.sha256), files))
    except Unreachable as error:
        words = f"S3 does not answer: {error}; the same command again is safe"
        raise CommandRefused("unreachable", words) from error
    except Refused as error:
        raise _refused(start, f"S3 refuses it: {error}") from error
    return into


def _as_own(source: Path, directory: Path, run_id: str, step: int) -> None:
    """The same files under a second name, with a manifest that says whose they are now."""
    target = directory / f"step-{step:012d}-attempt-1"
    if target.exists():
        return
    temporary = target.with_name(f".tmp-{target.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    document = json.loads((source / places.CHECKPOINT_MANIFEST).read_bytes())
    for file in document["files"]:
        path = temporary / file["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        _link(source / file["path"], path)
    document |= {"runId": run_id, "attempt": 1}
    document.pop("crc32", None)  # of the manifest as it was
    manifest = json.dumps(document, indent=1).encode()
    replace_file(temporary / places.CHECKPOINT_MANIFEST, manifest)
    temporary.rename(target)


def _link(source: Path, target: Path) -> None:
    """A committed checkpoint is never written to, so two runs may share its blocks."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copyfile(source, target, follow_symlinks=False)


def _as_the_programs(root: Path, source: Path, start: BundleStart) -> None:
    """A copy of what a program saved in its own way goes to the place that it had there."""
    copy = kept.kept_at(source)
    if copy is None:
        raise _refused(start, "it is no copy that can be put back")
    try:
        if not os.path.lexists(root / copy.source.path):
            putting_back.lay_out(root, copy)
    except Torn as error:
        raise _refused(start, str(error)) from error


def _refused(start: BundleStart, why: str) -> CommandRefused:
    return CommandRefused(
        "bundle-refused",
        f"checkpoint.startFrom: step {start.step} of {start.run_id} is not whole any more: {why}; "
        "name another one of trainyard run show RUN",
    )


class Starts:
    """One at a time for each run; a submit that is repeated meanwhile waits for the same."""

    def __init__(self, s3: S3) -> None:
        self._s3 = s3
        self._running: dict[str, asyncio.Task[None]] = {}

    @staticmethod
    def brought(root: Path, bundle: JobBundle) -> bool:
        """Whether nothing is to be done."""
        return bundle.start_from is None or (root / places.ATTEMPTS / _MARK).exists()

    async def bring(self, root: Path, bundle: JobBundle, bucket: str, deadline: float) -> None:
        """Raises what `start_from` raises, and CommandRefused at the deadline."""
        assert bundle.start_from is not None
        if bundle.run_id not in self._running:
            work = in_own_thread(partial(start_from, root, bundle, self._s3, bucket))
            self._running[bundle.run_id] = asyncio.create_task(work)
        task = self._running[bundle.run_id]
        await asyncio.wait({task}, timeout=max(0.0, deadline - time.monotonic()))
        if not task.done():
            raise CommandRefused(
                "fetching",
                "the checkpoint to start from is still being read; the same command again is safe",
            )
        self._running.pop(bundle.run_id, None)
        try:
            task.result()
        except OSError as error:
            if may_pass(error):
                raise
            raise _refused(bundle.start_from, error.strerror or str(error)) from error

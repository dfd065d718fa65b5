"""Checkpoints that exist whole or not at all: files first, manifest last, one rename under the
run's fence.

A process may be killed at any line. It then leaves either a committed directory whose manifest
verifies, or a dot directory that nobody reads. Needs the standard library only; `checkpointer.py`
does the same with all ranks of a job.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from ..common import places
from ..common.attempt import Attempt
from ..common.exits import CheckpointFailed, Fenced
from ..common.files import fsync_directory, write_json

SCHEMA = "trainyard.checkpoint.v1"
MANIFEST = places.CHECKPOINT_MANIFEST
_NAME = re.compile(r"^step-(\d{12})-attempt-(\d+)$")
_ASIDE = re.compile(r"^\.old-(step-\d{12}-attempt-\d+)-attempt-\d+$")
_LEFTOVER = re.compile(r"^\.(?:tmp|old)-.*attempt-(\d+)$")
_CHUNK = 1 << 20
#: So long a start waits for checkpoints that cannot be read just now; the other ranks wait for it
#: in a collective of 300 s at most.
READ_SECONDS, _FIRST_PAUSE, _LAST_PAUSE = 120.0, 0.5, 10.0
#: What is wrong with the files themselves. Any other error (EMFILE, EIO, ESTALE while a file system
#: fails over) may pass.
_OF_THE_FILES = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}
)

_T = TypeVar("_T")
#: Writes one file's content into the stream it is given.
Writer = Callable[[BinaryIO], object]


@dataclass(frozen=True)
class FileEntry:
    """One file as the manifest names it; `path` is relative to the checkpoint's directory."""

    path: str
    bytes: int
    sha256: str
    crc32: str


@dataclass(frozen=True)
class Saved:
    """A committed checkpoint that verifies."""

    path: Path
    step: int
    attempt: int
    world_size: int


class _HashingFile:
    """Counts and hashes what is written, so that a large file is never read back or held in memory
    twice.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._crc32 = 0
        self.bytes = 0
        self.error: OSError | None = None

    def to(self, raw: BinaryIO) -> None:
        self._raw = raw

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        try:
            self._raw.write(view)
        except OSError as error:
            self.error = error
            raise
        self._hash.update(view)
        self._crc32 = zlib.crc32(view, self._crc32)
        self.bytes += view.nbytes
        return view.nbytes

    def flush(self) -> None:
        self._raw.flush()

    def entry(self, name: str) -> FileEntry:
        return FileEntry(name, self.bytes, self._hash.hexdigest(), f"{self._crc32:08x}")


def write_file(directory: Path, name: str, writer: Writer) -> FileEntry:
    """Write and fsync one file below `directory`; returns its manifest entry. Raises OSError."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    written = _HashingFile()
    try:
        with open(path, "wb") as raw:
            written.to(raw)
            writer(cast(BinaryIO, written))
            raw.flush()
            os.fsync(raw.fileno())
    except (OSError, RuntimeError) as error:
        cause = written.error or error  # torch.save hides a failed write behind an error of its own
        if isinstance(cause, OSError):
            raise OSError(cause.errno, cause.strerror, str(path)) from error
        raise
    for parent in path.relative_to(directory).parents:
        fsync_directory(directory / parent)
    return written.entry(name)


def read_fence(run_dir: Path) -> int:
    """The newest attempt's number; 0 when no agent raised the fence (a run outside Trainyard)."""
    try:
        text = (run_dir / places.FENCE).read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        return 0
    except IsADirectoryError:
        raise CheckpointFailed(
            f"{run_dir / places.FENCE} is a directory; the file of this name says which attempt is "
            "the newest, so nothing may be committed: let the program write to another place"
        ) from None
    if not text.isdigit():
        raise CheckpointFailed(
            f"{run_dir / places.FENCE}: '{text[:40]}' is not an attempt's number, so nothing may "
            "be committed"
        )
    return int(text)


@contextlib.contextmanager
def holding_fence(attempt: Attempt) -> Iterator[None]:
    """Hold the run's fence lock; raises Fenced if a newer attempt exists.

    The agent raises the fence under the same lock.
    """
    descriptor = os.open(attempt.run_dir / places.FENCE_LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        newest = read_fence(attempt.run_dir)
        if newest > attempt.number:
            raise Fenced(
                f"attempt {attempt.number} is fenced: attempt {newest} of run {attempt.run_id} "
                "exists; nothing was committed"
            )
        yield
    finally:
        os.close(descriptor)


def lock(attempt: Attempt) -> int | None:
    """A descriptor that keeps a second job of the same attempt out while it is open; it goes with
    the process. Raises CheckpointFailed, OSError.
    """
    path = attempt.attempt_dir / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise CheckpointFailed(
            f"{path}: attempt {attempt.number} of run {attempt.run_id} is running already; end it, "
            "or give another TRAINYARD_RUN_DIR"
        ) from None
    except OSError:  # a file system without locks
        os.close(descriptor)
        return None
    return descriptor


def checkpoint_name(step: int, attempt: int) -> str:
    return f"step-{step:012d}-attempt-{attempt}"


def parse_name(name: str) -> tuple[int, int] | None:
    """(step, attempt) of a checkpoint directory's name, None for any other name."""
    match = _NAME.match(name)
    return (int(match[1]), int(match[2])) if match else None


def temporary_directory(target: Path, attempt: Attempt) -> Path:
    """Where the files of `target` are written before the commit; the attempt's own, so that
    attempts never mix.
    """
    name = target.name if parse_name(target.name) else f"{target.name}-attempt-{attempt.number}"
    return target.with_name(f".tmp-{name}")


def commit(
    attempt: Attempt, target: Path, step: int, world_size: int, files: Sequence[FileEntry]
) -> None:
    """Write the manifest of what lies in `temporary_directory(target)` and rename it into place:
    the rename is the commit.

    An existing `target` is set aside first: `final`, or the same step saved once more. Raises
    Fenced, OSError and ValueError (a file of it is gone or has another size); then nothing is
    committed, and what was at `target` is there.
    """
    temporary = temporary_directory(target, attempt)
    for entry in files:
        _check_size(temporary, entry.path, entry.bytes)
    manifest = {
        "schema": SCHEMA,
        "runId": attempt.run_id,
        "attempt": attempt.number,
        "step": step,
        "worldSize": world_size,
        "createdAt": datetime.now(timezone.utc).isoformat(),
        "files": [asdict(entry) for entry in sorted(files, key=lambda entry: entry.path)],
    }
    write_json(temporary / MANIFEST, {**manifest, "crc32": _sum_of_document(manifest)})
    fsync_directory(temporary)
    aside = target.with_name(f".old-{target.name}-attempt-{attempt.number}")
    with holding_fence(attempt):
        if replaces := target.exists():
            shutil.rmtree(aside, ignore_errors=True)
            os.rename(target, aside)
        try:
            os.rename(temporary, target)
        except OSError:
            if replaces:
                os.rename(aside, target)
            raise
        fsync_directory(target.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _sum_of_document(manifest: Mapping[str, Any]) -> str:
    """Of a manifest without its own sum, however it is laid out."""
    return f"{zlib.crc32(json.dumps(manifest, sort_keys=True).encode()):08x}"


def _sum_of(path: Path, quick: bool) -> str:
    """SHA-256 of a file, or its CRC-32 in eight hexadecimal digits."""
    digest, crc32 = hashlib.sha256(), 0
    with open(path, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            if quick:
                crc32 = zlib.crc32(chunk, crc32)
            else:
                digest.update(chunk)
    return f"{crc32:08x}" if quick else digest.hexdigest()


def _check_size(directory: Path, path: str, size: int) -> None:
    found = (directory / path).stat().st_size
    if found != size:
        raise ValueError(f"{path} has {found} bytes, the manifest says {size}")


def _check_file(directory: Path, entry: Any, quick: bool) -> None:
    path, size, sha256 = entry["path"], entry["bytes"], entry["sha256"]
    if os.path.isabs(path) or ".." in Path(path).parts:
        raise ValueError(f"{path} leaves the checkpoint")
    _check_size(directory, path, size)
    quick = quick and "crc32" in entry
    if _sum_of(directory / path, quick) != (entry["crc32"] if quick else sha256):
        raise ValueError(f"{path} does not have the manifest's {'crc32' if quick else 'sha256'}")


def verify(directory: Path, *, run_id: str | None = None, quick: bool = False) -> Saved:
    """Check a directory against its manifest: the run, every size and every SHA-256, or with
    `quick` every CRC-32 where there is one.

    CRC-32 finds what a disk or a copy damages, eight times as fast, and training waits for it; a
    forger is kept out by the file system's permissions. Raises ValueError with the reason why the
    checkpoint is not whole, and OSError where a file of it cannot be read just now, which says
    nothing of it.
    """
    try:
        manifest = json.loads((directory / MANIFEST).read_bytes())
        if manifest["schema"] != SCHEMA:
            raise ValueError(f"{MANIFEST} has schema {manifest['schema']!r}, not {SCHEMA!r}")
        if run_id is not None and manifest["runId"] != run_id:
            raise ValueError(f"{MANIFEST} is of run {manifest['runId']}, not of {run_id}")
        if manifest.pop("crc32", None) not in (None, _sum_of_document(manifest)):
            raise ValueError(f"{MANIFEST} does not have its own crc32")
        if not manifest["files"]:
            raise ValueError(f"{MANIFEST} names no file")
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda entry: _check_file(directory, entry, quick), manifest["files"]))
        saved = Saved(
            directory, int(manifest["step"]), int(manifest["attempt"]), int(manifest["worldSize"])
        )
    except FileNotFoundError as error:
        raise ValueError(f"{Path(error.filename).name} is missing") from error
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _OF_THE_FILES:
            raise
        raise ValueError(f"{MANIFEST} or a file of it cannot be read: {error!r}") from error
    if saved.world_size < 1:
        raise ValueError(f"{MANIFEST} has worldSize {saved.world_size}")
    named = parse_name(directory.name)
    if named is not None and named != (saved.step, saved.attempt):
        raise ValueError(f"{MANIFEST} is of step {saved.step}, attempt {saved.attempt}")
    return saved


def _committed(checkpoint_dir: Path) -> list[tuple[int, int, Path]]:
    """(step, attempt, path) of everything with a checkpoint's name, newest first."""
    try:
        names = os.listdir(checkpoint_dir)
    except FileNotFoundError:
        return []
    found = [(*parsed, checkpoint_dir / name) for name in names if (parsed := parse_name(name))]
    return sorted(found, reverse=True)


def find_newest(
    checkpoint_dir: Path, *, run_id: str | None = None
) -> tuple[Saved | None, dict[Path, str]]:
    """The newest (step, then attempt) whole checkpoint, and the newer ones that are not whole with
    their reasons.

    Those are named on stderr and left where they are: they are evidence. One that cannot be read is
    tried again for READ_SECONDS in all before an older one is taken. Raises CheckpointFailed where
    none can be read: a start from nothing would throw training away.
    """
    rejected: dict[Path, str] = {}
    patience = _Patience(READ_SECONDS)
    unread: OSError | None = None
    for _step, _attempt, path in patience.with_(checkpoint_dir, _committed):
        try:
            return patience.with_(path, partial(verify, run_id=run_id, quick=True)), rejected
        except ValueError as error:
            rejected[path] = str(error)
            print(
                f"trainyard: checkpoint {path.name} is not whole and is skipped: {error}",
                file=sys.stderr,
                flush=True,
            )
        except OSError as error:
            unread, rejected[path] = error, f"it cannot be read: {error}"
            print(
                f"trainyard: checkpoint {path.name} is skipped: it cannot be read: {error}",
                file=sys.stderr,
                flush=True,
            )
    if unread is not None:
        raise CheckpointFailed(
            f"{checkpoint_dir}: there are checkpoints, but none can be read, so nothing is trained "
            f"anew: {unread}"
        )
    return None, rejected


class _Patience:
    """Tries calls again that fail with an error that may pass. All calls share one span of time."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    def with_(self, path: Path, look: Callable[[Path], _T]) -> _T:
        """Raises the last OSError."""
        pause = _FIRST_PAUSE
        while True:
            try:
                return look(path)
            except OSError as error:
                left = self._deadline - time.monotonic()
                if left <= 0:
                    raise
                print(
                    f"trainyard: {path.name} cannot be read just now ({error}): trying again for "
                    f"{left:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
            time.sleep(min(pause, left))
            pause = min(_LAST_PAUSE, 2 * pause)


def read_ahead(checkpoint_dir: Path) -> None:
    """Have the kernel read the newest checkpoint's files while something else goes on.

    Errors are ignored here: the code that needs the file will raise them.
    """
    with contextlib.suppress(OSError):
        for file in [
            file
            for _, _, path in _committed(checkpoint_dir)[:1]
            for file in path.rglob("*")
            if file.is_file()
        ]:
            with open(file, "rb") as stream:
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)


def prune(
    checkpoint_dir: Path, keep: int, attempt: Attempt, spare: frozenset[Path] = frozenset()
) -> None:
    """Remove all but the `keep` newest checkpoints.

    Those in `spare`, and those of which a file is missing or has another size, are not whole: they
    are kept as evidence, and do not count. Each checkpoint is renamed to a dot name first, so that
    no reader finds half of it under a valid name.
    """
    found = [path for _, _, path in _committed(checkpoint_dir) if path not in spare]
    kept, rest = 0, iter(found)
    while kept < max(keep, 1) and (path := next(rest, None)) is not None:
        kept += _has_its_files(path)
    for path in [path for path in rest if _has_its_files(path)]:
        aside = path.with_name(f".old-{path.name}-by-attempt-{attempt.number}")
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, aside)
        shutil.rmtree(aside, ignore_errors=True)


def _has_its_files(directory: Path) -> bool:
    """Whether each file of the manifest is there with its size; what cannot be read is no yes."""
    try:
        for entry in json.loads((directory / MANIFEST).read_bytes())["files"]:
            _check_size(directory, entry["path"], entry["bytes"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    return True


def clean_leftovers(attempt: Attempt) -> list[str]:
    """Remove temporary directories of this attempt, which has just begun, and of older ones.

    Those of older attempts go only once the fence has this attempt's number: then none of them can
    still commit. What a commit set aside and did not replace is put back. Returns the removed
    names. Raises Fenced.
    """
    removed: list[str] = []
    with holding_fence(attempt):
        for target in _set_aside(attempt):
            _put_back(target)
        oldest = 0 if read_fence(attempt.run_dir) == attempt.number else attempt.number
        for directory in (attempt.checkpoint_dir, attempt.run_dir):
            for path in directory.glob(".*") if directory.is_dir() else ():
                match = _LEFTOVER.match(path.name)
                if match and (
                    oldest <= int(match[1]) < attempt.number
                    or (path.name.startswith(".tmp-") and int(match[1]) == attempt.number)
                ):
                    shutil.rmtree(path, ignore_errors=True)
                    removed.append(path.name)
    return removed


def _set_aside(attempt: Attempt) -> set[Path]:
    """Where a final model or a checkpoint was, or is, that a commit replaces."""
    names = os.listdir(attempt.checkpoint_dir) if attempt.checkpoint_dir.is_dir() else []
    found = {attempt.checkpoint_dir / match[1] for match in map(_ASIDE.match, names) if match}
    return {attempt.run_dir / places.FINAL, *found}


def _put_back(target: Path) -> None:
    """A commit that was killed between its two renames left `target` under its other name."""
    aside = sorted(target.parent.glob(f".old-{target.name}-attempt-*"), key=os.path.getmtime)
    if aside and not target.exists():
        os.rename(aside[-1], target)

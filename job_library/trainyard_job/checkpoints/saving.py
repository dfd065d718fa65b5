"""One checkpoint by all ranks: each writes into a directory, and the first one commits once the
parts of all are there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..common.attempt import Attempt
from ..common.exits import CheckpointFailed, Fenced
from ..common.files import fsync_directory
from ..ranks.board import Carrier
from ..ranks.meeting import Meeting
from . import checkpoint
from .checkpoint import FileEntry

#: In the temporary directory: one directory for each rank.
_RANKS = ".ranks"
_CHUNK = 1 << 22
_THREADS = 8

Fill = Callable[[Path], None]


@dataclass(frozen=True)
class Target:
    """What is saved: the directory that will be there after the commit, and its step.

    `spare`: checkpoints that are not whole, which are evidence and are not removed. `shared`: all
    ranks write into one directory, as some frameworks want it; else each has its own, and two
    ranks cannot write one file.
    """

    path: Path
    step: int
    spare: frozenset[Path] = frozenset()
    shared: bool = False

    @property
    def name(self) -> str:
        return f"{self.path.name} (step {self.step})"


@contextlib.contextmanager
def saving(
    attempt: Attempt, meeting: Meeting, target: Target, fill: Fill | None = None
) -> Iterator[Path]:
    """A directory for this rank's files; the checkpoint is there when the block has ended on all
    ranks.

    `fill` is called on the first rank with the empty directory, when all ranks have come. Raises
    Fenced and CheckpointFailed on every rank alike; then nothing is committed, and what was there
    before is there.
    """
    place = meeting.place
    temporary = Path(
        meeting.agree(f"the start of {target.name}", None, lambda _: _begin(attempt, target, fill))
    )
    if meeting.carrier is not None:  # this host has a directory of its own
        temporary = checkpoint.temporary_directory(target.path, attempt)
    alone = place.world_size == 1
    own = temporary if alone or target.shared else temporary / _RANKS / str(place.rank)
    files, end = f"the files of {target.name}", f"the end of {target.name}"
    try:
        try:
            own.mkdir(parents=True, exist_ok=True)
            yield own
        except BaseException as error:
            reason = f"rank {place.rank}: {type(error).__name__}: {error}"
            meeting.abandon(files if target.shared else end, reason)
            raise
        if target.shared:
            where = {"host": meeting.carrier.host} if meeting.carrier else {}
            names = meeting.agree(files, where, lambda parts: _shares(temporary, parts))[place.rank]
        else:
            names = None
        mine = _attempted(place.rank, own, names)
        if meeting.carrier is not None:
            mine = _carried(meeting.carrier, mine, own, temporary / _RANKS / str(place.rank))
        meeting.agree(end, mine, lambda parts: _commit(attempt, target, temporary, parts))
    except BaseException:
        if alone or not target.shared:  # what all share the first rank removes
            _remove(own, temporary)
        raise


def _remove(own: Path, temporary: Path) -> None:
    """Remove this rank's files, and what the last rank leaves empty."""
    shutil.rmtree(own, ignore_errors=True)
    with contextlib.suppress(OSError):
        (temporary / _RANKS).rmdir()
        temporary.rmdir()


def _begin(attempt: Attempt, target: Target, fill: Fill | None) -> str:
    """Make the empty directory. What lies there is of a save that failed."""
    temporary = checkpoint.temporary_directory(target.path, attempt)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    if fill is not None:
        try:
            fill(temporary)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    return str(temporary)


def _attempted(rank: int, directory: Path, names: Sequence[str] | None) -> dict[str, Any]:
    """The entries of these files, or of all, for the first rank; or why there are none."""
    try:
        entries = entries_of(directory, files_below(directory) if names is None else names)
    except (OSError, ValueError) as error:
        return {"failed": f"rank {rank}: {error}"}
    return {"files": [asdict(entry) for entry in entries]}


def _carried(carrier: Carrier, mine: dict[str, Any], own: Path, target: Path) -> dict[str, Any]:
    """Bring this rank's files to the first rank's host; or why they are not there."""
    try:
        for entry in mine.get("files", []):
            carrier.put(own / entry["path"], target / entry["path"])
        for entry in mine.get("files", []):
            (own / entry["path"]).unlink()
    except OSError as error:
        return {"failed": f"{carrier.host}: {error}"}
    return mine


def _shares(directory: Path, parts: list[Any]) -> list[list[str] | None]:
    """Which rank reads which files of a directory that all have written.

    Where another host has a directory of its own, its first rank reads all of that (None).
    """
    try:
        _check_parts(parts)
        sizes = {name: (directory / name).stat().st_size for name in files_below(directory)}
    except (CheckpointFailed, OSError, ValueError):
        shutil.rmtree(directory, ignore_errors=True)
        raise
    here = [rank for rank, part in enumerate(parts) if not part.get("host")]
    shares: list[list[str] | None] = [[] for _ in parts]
    for rank, share in zip(here, shared_out(sizes, len(here)), strict=True):
        shares[rank] = share
    firsts: dict[str, int] = {}
    for rank, part in enumerate(parts):
        if host := part.get("host"):
            firsts.setdefault(host, rank)
    for rank in firsts.values():
        shares[rank] = None
    return shares


def shared_out(sizes: dict[str, int], parts: int) -> list[list[str]]:
    """Names in so many parts of about the same size."""
    found: list[list[str]] = [[] for _ in range(parts)]
    total = [0] * parts
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        least = total.index(min(total))
        found[least].append(name)
        total[least] += sizes[name]
    return found


def _check_parts(parts: Sequence[Any]) -> None:
    """Raises CheckpointFailed for the first part that is none."""
    for part in parts:
        if "failed" in part:
            raise CheckpointFailed(str(part["failed"]))


def _commit(attempt: Attempt, target: Target, temporary: Path, parts: list[Any]) -> None:
    """On the first rank, when all ranks' files are written and hashed."""
    try:
        _check_parts(parts)
        entries = [[FileEntry(**entry) for entry in part["files"]] for part in parts]
        files = _joined(temporary, entries)
        if not files:
            raise CheckpointFailed(
                f"no rank wrote a file for step {target.step}: write into the directory that the "
                "block is given"
            )
        checkpoint.commit(attempt, target.path, target.step, len(parts), files)
    except (CheckpointFailed, Fenced, OSError, ValueError):
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    if checkpoint.parse_name(target.path.name):
        try:
            checkpoint.prune(attempt.checkpoint_dir, attempt.keep, attempt, target.spare)
        except OSError as error:  # this one is there all the same
            text = f"trainyard: older checkpoints cannot be removed: {error}"
            print(text, file=sys.stderr, flush=True)


def _joined(temporary: Path, parts: list[list[FileEntry]]) -> list[FileEntry]:
    """Move the ranks' files into one directory. Raises CheckpointFailed where two ranks wrote one
    name and not the same.
    """
    ranks = temporary / _RANKS
    files: dict[str, tuple[int, FileEntry]] = {}
    for rank, entries in enumerate(parts):
        for entry in entries:
            former, known = files.setdefault(entry.path, (rank, entry))
            if known.sha256 != entry.sha256:
                raise CheckpointFailed(
                    f"ranks {former} and {rank} both wrote '{entry.path}', and not the same: let "
                    "one of them write it, or put the rank into the name"
                )
            apart = ranks / str(rank) / entry.path
            if former == rank and apart.exists():  # else it lies where it belongs, or nowhere
                path = temporary / entry.path
                path.parent.mkdir(parents=True, exist_ok=True)
                os.rename(apart, path)
    if ranks.exists():
        shutil.rmtree(ranks)
        for parent in {(temporary / name).parent for name in files}:
            fsync_directory(parent)
    return [entry for _, entry in files.values()]


def files_below(directory: Path) -> list[str]:
    """Paths relative to the directory. Raises ValueError for what cannot be in a manifest."""
    found = []
    for folder, folders, names in os.walk(directory):
        for name in [*names, *folders]:
            path = Path(folder, name)
            relative = path.relative_to(directory).as_posix()
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise ValueError(f"'{relative}' is no plain file; write one with its content")
            try:
                relative.encode()
            except UnicodeEncodeError:
                raise ValueError(f"{relative!a} is not UTF-8; give it another name") from None
            if relative == checkpoint.MANIFEST:
                raise ValueError(f"'{relative}' is the manifest's own name; give it another name")
        found += [Path(folder, name).relative_to(directory).as_posix() for name in names]
    return sorted(found)


def entries_of(directory: Path, names: Sequence[str]) -> list[FileEntry]:
    """Hash these files and make them durable. Raises OSError."""
    with ThreadPoolExecutor(_THREADS) as pool:
        entries = list(pool.map(lambda name: _entry(directory, name), names))
    folders = {directory}
    for name in names:
        folders.update(directory / parent for parent in Path(name).parents)
    for folder in sorted(folders):
        fsync_directory(folder)
    return entries


def _entry(directory: Path, name: str) -> FileEntry:
    digest, crc32, size = hashlib.sha256(), 0, 0
    with open(directory / name, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            crc32 = zlib.crc32(chunk, crc32)
            size += len(chunk)
        os.fsync(stream.fileno())
    return FileEntry(name, size, digest.hexdigest(), f"{crc32:08x}")


def link_tree(source: Path, directory: Path) -> None:
    """Give the files of a directory a second name in another one; where the file system has no
    links, copy them. What is there already stays. Raises OSError and ValueError.
    """
    for name in files_below(source):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        link_file(source / name, path)


def link_file(source: Path, path: Path) -> None:
    """Give a file a second name, or copy it; a file that has the name already stays."""
    try:
        os.link(source, path)
    except FileExistsError:
        return
    except OSError:  # another file system, or one without links
        _copy(source, path)


def _copy(source: Path, path: Path) -> None:
    if path.exists():
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    shutil.copyfile(source, part)
    os.replace(part, path)

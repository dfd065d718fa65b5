"""The agent's own copies of what a program saved: how they are called, made and found again.

A copy is made beside its place and renamed: what has a copy's name is whole, whenever the agent
was killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import IO, NamedTuple

from trainyard_agent.checkpoints import formats
from trainyard_agent.checkpoints.patterns import ROOTS, File, Match, look, store_name
from trainyard_agent.host.atomic_file import replace_file
from trainyard_agent.host.job_files import may_pass, open_inside, read_small, stays_inside
from trainyard_contracts import places
from trainyard_contracts.checkpoint_manifest import CheckpointManifest, ManifestFile, WatchedSource

#: ioctl_ficlonerange(2): another file with the same blocks, which are copied when one is changed.
FICLONE = 0x40049409
_BLOCK = 1024 * 1024
_MANIFEST_BYTES = 16 * 1024 * 1024
_TMP = ".tmp-"


class Unsteady(Exception):
    """The program's file changed while it was read."""


@dataclass(frozen=True)
class Kept:
    """One copy; `path` is its directory."""

    path: Path
    number: int
    manifest: CheckpointManifest
    source: WatchedSource


class Save(NamedTuple):
    """What is to be copied, and under which name."""

    run_id: str
    attempt: int
    step: int
    counted: bool
    ranks: int
    #: Whether the program never writes again to a file that has its name.
    links: bool
    pause: Callable[[], None]


def stores(root: Path) -> list[str]:
    """The directories with copies, relative to the run's; one for each series.

    Raises OSError where they cannot be seen just now.
    """
    top = root / places.WATCHED
    try:
        if top.is_symlink():
            return []
        return sorted(
            f"{places.WATCHED}/{entry.name}"
            for entry in os.scandir(top)
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
        )
    except OSError as error:
        if may_pass(error):
            raise
        return []


def copies(store: Path) -> list[Kept]:
    """The copies of a series, newest first. Raises OSError where they cannot be read just now."""
    return list(_each(store))


def _each(store: Path) -> Iterator[Kept]:
    try:
        names = sorted(name for name in os.listdir(store) if places.SAVE_NAME.match(name))
    except OSError as error:
        if may_pass(error):
            raise
        return
    for name in reversed(names):
        kept = kept_at(store / name)
        if kept is not None:
            yield kept


def kept_at(path: Path) -> Kept | None:
    """The copy in this directory; None if there is none, it was damaged, or it would be put back
    where no program saves: the job can write here, too. Raises OSError.
    """
    match = places.SAVE_NAME.match(path.name)
    try:
        body = read_small(path.parent, path / places.CHECKPOINT_MANIFEST, _MANIFEST_BYTES)
        manifest = CheckpointManifest.model_validate_json(body)
        for name in [*(file.path for file in manifest.files), *_source(manifest)]:
            stays_inside(name)
    except ValueError:
        return None
    except OSError as error:
        if may_pass(error):
            raise
        return None
    if match is None or manifest.watched is None:
        return None
    if manifest.watched.path.split("/")[0] not in ROOTS:
        return None
    return Kept(path, int(match.group(1)), manifest, manifest.watched)


def _source(manifest: CheckpointManifest) -> list[str]:
    return [manifest.watched.path] if manifest.watched is not None else []


def newest(store: Path) -> Kept | None:
    """The newest copy of a series. Raises OSError, too."""
    return next(_each(store), None)


def is_mixed(copy: Kept | None, match: Match) -> bool:
    """Whether a directory still has files that its copy has, beside others: a save that writes over
    the one before may have come so far. Each file of it may be whole by itself.
    """
    if copy is None or not match.directory or copy.source.path != match.name:
        return False
    same = [_is_as_copied(copy.path / file.name, file) for file in match.files]
    return any(same) and not all(same)


def _is_as_copied(path: Path, file: File) -> bool:
    try:
        about = path.lstat()
    except OSError:
        return False
    return (about.st_size, about.st_mtime_ns) == (file.size, file.modified_ns)


def take(root: Path, match: Match, save: Save) -> Kept:
    """Copy what matches, prove the copy and commit it.

    Raises Torn and Unsteady for what the program wrote, OSError.
    """
    store = root / places.WATCHED / store_name(match.series)
    store.mkdir(parents=True, exist_ok=True)
    clean(store)
    number = max((_number(name) for name in os.listdir(store)), default=0) + 1
    step = number if save.counted else save.step
    name = f"save-{number:012d}-step-{step:012d}-attempt-{save.attempt}"
    temporary = store / f"{_TMP}{name}"
    try:
        linked = [_copy(root, file.name, temporary / file.name, save) for file in match.files]
        _still_the_same(root, match)
        _prove(root, match, temporary, save, shared=all(linked))
        _seal(temporary, match, save._replace(step=step), linked=all(linked))
        os.rename(temporary, store / name)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync(store)
    kept = kept_at(store / name)
    assert kept is not None
    return kept


def clean(store: Path) -> None:
    """Remove what an agent left that was killed while it copied."""
    for name in os.listdir(store):
        if name.startswith(_TMP):
            shutil.rmtree(store / name, ignore_errors=True)


def _number(name: str) -> int:
    match = places.SAVE_NAME.match(name)
    return int(match.group(1)) if match else 0


def _prove(root: Path, match: Match, copy: Path, save: Save, *, shared: bool) -> None:
    """Raise Torn or Unsteady if the copy is not whole."""
    names = [file.name for file in match.files]
    # A format that proves nothing may hold one half of two saves: it is read twice. A clone or a
    # link was not read at all until now.
    if formats.prove(copy, names, ranks=save.ranks or None, pause=save.pause) or shared:
        return
    for name in names:
        if _hash(root, name, save.pause) != _hash(copy, name, save.pause):
            raise Unsteady(f"{name} changed while it was copied")
    _still_the_same(root, match)


def _still_the_same(root: Path, match: Match) -> None:
    now = look(root, match.name)
    if now is None or now.signature != match.signature:
        raise Unsteady(f"{match.name} changed while it was copied")


def _seal(directory: Path, match: Match, save: Save, *, linked: bool) -> None:
    """Write the manifest, last."""
    files = [
        ManifestFile(
            path=file.name, bytes=file.size, sha256=_hash(directory, file.name, save.pause)
        )
        for file in match.files
    ]
    source = WatchedSource(
        path=match.name,
        signature=match.signature,
        modified_ns=match.modified_ns,
        directory=match.directory,
        counted=save.counted,
        linked=linked,
    )
    manifest = CheckpointManifest(
        run_id=save.run_id,
        attempt=save.attempt,
        step=save.step,
        world_size=max(1, save.ranks),
        created_at=datetime.now(timezone.utc),
        files=files,
        watched=source,
    )
    body = manifest.model_dump_json(by_alias=True, indent=1).encode()
    replace_file(directory / places.CHECKPOINT_MANIFEST, body)


def _copy(root: Path, name: str, target: Path, save: Save) -> bool:
    """Copy one file with its times and mode; whether it shares its blocks with the program's."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open_inside(root, root / name) as source:
            shares = save.links and _link(source, root / name, target)
            if not shares:
                shares = copy_open(source, target, save.pause)
            return shares
    except FileNotFoundError as error:
        raise Unsteady(f"{name} was removed while it was copied") from error


def _link(source: IO[bytes], path: Path, target: Path) -> bool:
    """Give the file another name; False where the filesystem cannot."""
    try:
        os.link(path, target, follow_symlinks=False)
    except OSError:
        return False
    opened, there = os.fstat(source.fileno()), target.lstat()
    if (opened.st_dev, opened.st_ino) != (there.st_dev, there.st_ino):
        target.unlink()
        return False
    return True


def copy_open(source: IO[bytes], target: Path, pause: Callable[[], None]) -> bool:
    """Copy an open file to a new name; whether both share their blocks.

    Raises OSError, FileExistsError too.
    """
    about = os.fstat(source.fileno())
    with open(target, "xb") as copy:
        shares = _clone(source, copy)
        if not shares:
            while block := source.read(_BLOCK):
                copy.write(block)
                pause()
        copy.flush()
        os.fchmod(copy.fileno(), about.st_mode & 0o777)
        if os.geteuid() == 0:
            os.fchown(copy.fileno(), about.st_uid, about.st_gid)
        os.utime(copy.fileno(), ns=(about.st_atime_ns, about.st_mtime_ns))
        os.fsync(copy.fileno())
    return shares


def _clone(source: IO[bytes], copy: IO[bytes]) -> bool:
    try:
        fcntl.ioctl(copy.fileno(), FICLONE, source.fileno())
    except OSError as error:
        if error.errno in (errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EDQUOT):
            raise
        return False
    return True


def _hash(root: Path, name: str, pause: Callable[[], None]) -> str:
    found = sha256()
    try:
        with open_inside(root, root / name) as stream:
            while block := stream.read(_BLOCK):
                found.update(block)
                pause()
    except FileNotFoundError as error:
        raise Unsteady(f"{name} was removed while it was read") from error
    return found.hexdigest()


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def room_for(directory: Path, size: int) -> bool:
    """Whether the disk has room for a copy and for the program's next save of that size."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize >= 2 * size

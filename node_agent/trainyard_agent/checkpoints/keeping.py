"""Makes a copy of what a program saved, and proves that it is whole."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import IO

from trainyard_agent.checkpoints import formats
from trainyard_agent.checkpoints.kept import Kept, Save, kept_at
from trainyard_agent.checkpoints.patterns import Match, look, store_name
from trainyard_agent.host.atomic_file import replace_file
from trainyard_agent.host.job_files import open_inside
from trainyard_contracts import places
from trainyard_contracts.checkpoint_manifest import CheckpointManifest, ManifestFile, WatchedSource

#: ioctl_ficlonerange(2): another file with the same blocks, which are copied when one is changed.
FICLONE = 0x40049409
_BLOCK = 1024 * 1024
_TMP = ".tmp-"


class Unsteady(Exception):
    """The program's file changed while it was read."""


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

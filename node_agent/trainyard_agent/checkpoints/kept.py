"""The agent's own copies of what a program saved: how they are called, made and found again.

A copy is made beside its place and renamed: what has a copy's name is whole, whenever the agent
was killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trainyard_agent.checkpoints.patterns import ROOTS, File, Match
from trainyard_agent.host.job_files import may_pass, read_small, stays_inside
from trainyard_contracts import places
from trainyard_contracts.checkpoint_manifest import CheckpointManifest, WatchedSource

_MANIFEST_BYTES = 16 * 1024 * 1024


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

"""Holds a checkpoint under names that nobody prunes, while it is read."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainyard_agent.checkpoints.keeping import room_for
from trainyard_contracts import places
from trainyard_contracts.checkpoint_manifest import CheckpointManifest

log = logging.getLogger(__name__)


@contextmanager
def held(root: Path, path: Path, manifest: CheckpointManifest) -> Iterator[Path]:
    """The checkpoint under names that nobody prunes; itself, where the filesystem has no links.

    While names are held, their space is not free. So without room for another checkpoint the
    program's next save comes first.
    """
    place = root / places.SYNC_HELD
    try:
        linked = _link(root, path, place, manifest)
        yield place if linked else path
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _link(root: Path, path: Path, place: Path, manifest: CheckpointManifest) -> bool:
    try:
        if not room_for(root, sum(item.bytes for item in manifest.files)):
            return False
        place.mkdir()
        for name in [*(item.path for item in manifest.files), places.CHECKPOINT_MANIFEST]:
            target = place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(path / name, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError as error:
        log.info("%s is read where it is: %s", path, error)
        return False
    return True

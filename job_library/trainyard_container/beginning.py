"""Brings the checkpoint of another run with which this run begins, as the first of its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainyard_contracts import places
from trainyard_job.checkpoints.checkpoint import Saved
from trainyard_job.common.files import write_json

from . import restoring
from .restoring import NotWhole
from .store import Store
from .surroundings import Surroundings, Unfit


def bring(store: Store, where: Surroundings, target: Path, start: Mapping[str, Any]) -> Saved:
    """Whole, with every hash compared. Raises Unfit, StoreFailed, OSError."""
    name, source = str(start["path"]).rpartition("/")[2], str(start["runId"])
    run = where.bundle.prefix.partition(f"/{places.ATTEMPTS}/")[0]
    prefix = places.start_prefix(run)
    try:
        found = restoring.bring(store, prefix, name, where.run_dir, target, source)
    except NotWhole as torn:
        raise Unfit(
            f"checkpoint.startFrom: step {start['step']} of {source} is not whole: {torn}; name "
            "another step of that run",
            lasting=True,
        ) from None
    return _as_own(where, target, found)


def _as_own(where: Surroundings, target: Path, found: Saved) -> Saved:
    """The same files, with a manifest that says whose they are now."""
    own = target / f"step-{found.step:012d}-attempt-1"
    document = json.loads((found.path / places.CHECKPOINT_MANIFEST).read_bytes())
    document |= {"runId": where.run_id, "attempt": 1}
    document.pop("crc32", None)  # of the manifest as it was
    write_json(found.path / places.CHECKPOINT_MANIFEST, document)
    if own != found.path:
        shutil.rmtree(own, ignore_errors=True)
        found.path.rename(own)
    return Saved(own, found.step, 1, found.world_size)

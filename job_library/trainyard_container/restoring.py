"""Brings the newest whole checkpoint from S3 to this host: the manifest verified, and every file's
size and SHA-256. What is torn is skipped with its reason; what cannot be read just now is no less
whole for that.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from trainyard_contracts import places
from trainyard_job.checkpoints import checkpoint
from trainyard_job.checkpoints.checkpoint import Saved

from .store import Missing, Store

_AT_ONCE = 8
#: Below the run's directory: a checkpoint on its way here.
_STAGE = ".restoring"

#: Called with step, name and reason of a checkpoint that is not whole.
Reject = Callable[[int, str, str], None]


class NotWhole(Exception):
    """The message says why."""


def by_name(prefix: str, sizes: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """The objects of each checkpoint below the prefix, newest first, by their relative names."""
    found: dict[str, dict[str, int]] = {}
    for key, size in sizes.items():
        name, _, inner = key.removeprefix(prefix).partition("/")
        if inner and checkpoint.parse_name(name):
            found.setdefault(name, {})[inner] = size
    return dict(sorted(found.items(), key=lambda one: _order(one[0]), reverse=True))


def _order(name: str) -> tuple[int, int]:
    parsed = checkpoint.parse_name(name)
    return parsed if parsed is not None else (-1, -1)


def manifest_of(store: Store, prefix: str, name: str) -> tuple[bytes, list[dict[str, Any]]]:
    """The manifest and its files. Raises NotWhole, StoreFailed."""
    try:
        body = store.read(f"{prefix}{name}/{places.CHECKPOINT_MANIFEST}")
    except Missing:
        raise NotWhole("it was never finished: it has no manifest.json") from None
    return body, files_of(body)


def files_of(manifest: bytes) -> list[dict[str, Any]]:
    """What it names, all of it below the checkpoint. Raises NotWhole."""
    try:
        files = [dict(entry) for entry in json.loads(manifest)["files"]]
        for entry in files:
            path, _size, _sha = str(entry["path"]), int(entry["bytes"]), str(entry["sha256"])
            if path.startswith("/") or ".." in path.split("/"):
                raise ValueError(f"'{path}' leaves the checkpoint")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotWhole(f"manifest.json cannot be read: {error!r}") from None
    return files


def lacking(files: list[dict[str, Any]], there: Mapping[str, int]) -> str:
    """What the listing says is wrong; '' if every file is there with its size."""
    for entry in files:
        size = there.get(entry["path"])
        if size is None:
            return f"{entry['path']} is missing"
        if size != entry["bytes"]:
            return f"{entry['path']} has {size} bytes, the manifest says {entry['bytes']}"
    return ""


def newest(
    store: Store, prefix: str, run_dir: Path, target: Path, run_id: str, reject: Reject
) -> Saved | None:
    """Bring the newest whole one below `target`; None if there is none.

    Raises StoreFailed where S3 cannot be read: nothing is trained anew because of that.
    """
    for name, there in by_name(prefix, store.sizes(prefix)).items():
        try:
            return bring(store, prefix, name, run_dir, target, run_id, there)
        except NotWhole as torn:
            reject(_order(name)[0], name, str(torn))
    return None


def bring(
    store: Store,
    prefix: str,
    name: str,
    run_dir: Path,
    target: Path,
    run_id: str,
    there: Mapping[str, int] | None = None,
) -> Saved:
    """One checkpoint, beside its place first. Raises NotWhole, StoreFailed, OSError."""
    body, files = manifest_of(store, prefix, name)
    if there is not None and (wrong := lacking(files, there)):
        raise NotWhole(wrong)
    stage = run_dir / _STAGE / name
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda entry: _fetch(store, f"{prefix}{name}/", stage, entry), files))
        (stage / places.CHECKPOINT_MANIFEST).write_bytes(body)
        try:
            # Without the files' hashes, which were compared as they came.
            saved = checkpoint.verify(stage, run_id=run_id, quick=True)
        except ValueError as error:
            raise NotWhole(str(error)) from None
        target.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target / name, ignore_errors=True)
        stage.rename(target / name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return Saved(target / name, saved.step, saved.attempt, saved.world_size)


def _fetch(store: Store, prefix: str, stage: Path, entry: Mapping[str, Any]) -> None:
    path = str(entry["path"])
    try:
        found = store.fetch(prefix + path, stage / path)
    except Missing:
        raise NotWhole(f"{path} is missing") from None
    if found != entry["sha256"]:
        raise NotWhole(f"{path} does not have the manifest's sha256")

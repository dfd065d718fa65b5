"""The run's directory on this host, as programs find it on every cluster: the attempt's job, the
user's files in the working directory, and places for results.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from trainyard_contracts import places
from trainyard_job.common.files import write_json, write_text

from . import script_mode
from .store import Missing, Store
from .surroundings import Surroundings, Unfit

_AT_ONCE = 8
#: As the agent of a cluster marks what the submission brought.
UNPACKED_AT = 946_684_800

Bundle = Mapping[str, Any]


def read_bundle(where: Surroundings, store: Store) -> Bundle:
    """The attempt's job. Raises Unfit, StoreFailed."""
    uri = f"s3://{where.bundle.bucket}/{where.bundle.prefix}"
    try:
        body = store.read(where.bundle.prefix)
    except Missing:
        raise Unfit(f"TRAINYARD_BUNDLE: there is no object {uri}") from None
    if hashlib.sha256(body).hexdigest() != where.bundle_sha256:
        raise Unfit(f"TRAINYARD_BUNDLE: {uri} is not the object that was submitted: its SHA-256")
    bundle: Bundle = json.loads(body)
    if (bundle["runId"], bundle["attempt"]) != (where.run_id, where.attempt):
        raise Unfit(f"TRAINYARD_BUNDLE: {uri} is of {bundle['runId']} attempt {bundle['attempt']}")
    if wrong := _cannot(bundle):
        raise Unfit(wrong)
    return bundle


def _cannot(bundle: Bundle) -> str:
    """What an agent does on a cluster, and nobody in a container."""
    if bundle.get("image"):
        return "job.image: a training job runs in its own image; name it as cluster.spec.image"
    mounted = [one["path"] for one in bundle.get("inputs") or [] if one.get("mounted")]
    if mounted:
        return f"inputs: nothing is mounted at '{mounted[0]}'; use mode copy, or a channel"
    return ""


def lay_out(
    where: Surroundings, bundle: Bundle, store: Store, fetch: Callable[[Path], None] | None = None
) -> None:
    """Everything that the launcher and the program read; `fetch` brings code of another kind into
    the working directory. Raises Unfit, StoreFailed, OSError.
    """
    for path in (where.attempt_dir, where.run_dir / places.OUTPUT, checkpoints(where, bundle)):
        path.mkdir(parents=True, exist_ok=True)
    script_mode.lay_out(where, asked=bundle.get("hyperparameters") is not None)
    job = {name: value for name, value in bundle.items() if name not in ("batchScript", "files")}
    job["hyperparameters"] = script_mode.hyperparameters(where, job.get("hyperparameters"))
    write_json(where.attempt_dir / places.JOB, {**job, "region": where.region})
    write_text(where.run_dir / places.FENCE, f"{where.attempt}\n", durable=True)
    work = where.run_dir / places.WORK
    work.mkdir(exist_ok=True)
    if code := bundle.get("code"):
        unpack(store, str(code["prefix"]), str(code["tree"]), work, "job.workdir")
    if fetch is not None:
        fetch(work)
    for name, text in (bundle.get("files") or {}).items():
        path = inside(work, str(name), "job.files")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, str(text), durable=False)
        os.utime(path, (UNPACKED_AT, UNPACKED_AT))


def checkpoints(where: Surroundings, bundle: Bundle) -> Path:
    """The directory of the run's checkpoints. Raises Unfit."""
    name = str(bundle.get("checkpointDirectory") or places.CHECKPOINTS)
    return inside(where.run_dir, name, "checkpoint.directory")


def inside(top: Path, name: str, field: str) -> Path:
    """A path below `top`. Raises Unfit."""
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\x00" in name:
        raise Unfit(f"{field}: '{name}' leaves its directory; give a plain relative path")
    return top.joinpath(*parts)


def unpack(store: Store, prefix: str, tree: str, top: Path, field: str) -> None:
    """An upload: its tree and packs, by their hashes. Raises Unfit, StoreFailed, OSError."""
    document = _packed(store, f"{prefix}/{tree}", tree, top, field)
    found = json.loads(document.read_bytes())
    document.unlink()
    for file in found.get("files") or []:
        inside(top, file["path"], field).parent.mkdir(parents=True, exist_ok=True)
    for name in found.get("directories") or []:
        inside(top, name, field).mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        names = [str(pack["sha256"]) for pack in found.get("packs") or []]
        fetched = pool.map(lambda one: _packed(store, f"{prefix}/{one}", one, top, field), names)
        packs = list(fetched)
        list(pool.map(lambda file: _assemble(top, file, packs, field), found.get("files") or []))
    for pack in packs:
        pack.unlink()
    for link in found.get("links") or []:
        path = inside(top, link["path"], field)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(path):
            path.symlink_to(str(link["target"]))


def _packed(store: Store, key: str, sha256: str, top: Path, field: str) -> Path:
    """An object of this hash as a file beside the directory."""
    path = top.with_name(f".unpacking-{sha256}")
    try:
        found = store.fetch(key, path)
    except Missing:
        raise Unfit(f"{field}: s3://{store.bucket}/{key} is not there any more") from None
    if found != sha256:
        raise Unfit(f"{field}: s3://{store.bucket}/{key} was changed after it was uploaded")
    return path


def _assemble(top: Path, file: Mapping[str, Any], packs: list[Path], field: str) -> None:
    path, hashed = inside(top, file["path"], field), hashlib.sha256()
    with open(path, "wb") as target:
        for chunk in file.get("chunks") or []:
            with open(packs[chunk["pack"]], "rb") as source:
                source.seek(chunk["offset"])
                body = source.read(chunk["bytes"])
            hashed.update(body)
            target.write(body)
    if hashed.hexdigest() != file["sha256"]:
        raise Unfit(f"{field}: '{file['path']}' is not what its tree says; upload it again")
    path.chmod(0o755 if file.get("executable") else 0o644)
    os.utime(path, (UNPACKED_AT, UNPACKED_AT))


def fresh(where: Surroundings) -> None:
    """What an earlier job left on this host is gone: a warm pool keeps instances."""
    shutil.rmtree(where.run_dir.parents[1], ignore_errors=True)

"""Reads every file of a checkpoint, and says whether it is whole."""

from __future__ import annotations

import time
from pathlib import Path

from trainyard_agent.host.digests import Digest, digest
from trainyard_agent.host.job_files import may_pass, read_small, stays_inside
from trainyard_contracts import places
from trainyard_contracts.checkpoint_manifest import CheckpointManifest

#: A manifest may have so much: the names, sizes and hashes of about 100,000 files.
MANIFEST_BYTES = 16 * 1024 * 1024
#: Between blocks of 1 MiB: at most a good half of one core, however much there is to hash.
_PAUSE_SECONDS = 0.0005


class NotWhole(Exception):
    """The checkpoint does not verify; the text says which file and how."""


def verify(
    directory: Path, run_id: str | None = None
) -> tuple[CheckpointManifest, dict[str, Digest]]:
    """Read every file of a checkpoint and compare it with the manifest.

    Raises NotWhole for what its files are, and OSError where one cannot be read just now, which
    says nothing of it.
    """
    manifest = read_manifest(directory, run_id)
    digests = {}
    for item in manifest.files:
        path = directory / item.path
        try:
            # The size first: it costs nothing and finds most torn files.
            size = path.lstat().st_size
            if size != item.bytes:
                raise NotWhole(f"{item.path} has {size} bytes, the manifest says {item.bytes}")
            found = digest(path, below=directory.parent, pause=lambda: time.sleep(_PAUSE_SECONDS))
        except OSError as error:
            if may_pass(error):
                raise
            raise NotWhole(f"{item.path} cannot be read: {error.strerror or error}") from error
        if (found.size, found.sha256) != (item.bytes, item.sha256):
            raise NotWhole(f"{item.path} does not have the hash that the manifest says")
        digests[item.path] = found
    return manifest, digests


def read_manifest(directory: Path, run_id: str | None) -> CheckpointManifest:
    """Raises NotWhole, OSError."""
    try:
        manifest = CheckpointManifest.model_validate_json(
            read_small(directory.parent, directory / places.CHECKPOINT_MANIFEST, MANIFEST_BYTES)
        )
        for item in manifest.files:
            stays_inside(item.path)
    except FileNotFoundError as error:
        raise NotWhole("it has no manifest.json") from error
    except OSError as error:
        if may_pass(error):
            raise
        raise NotWhole(f"manifest.json cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise NotWhole(f"manifest.json is malformed: {str(error).splitlines()[0][:200]}") from error
    if run_id is not None and manifest.run_id != run_id:
        raise NotWhole(f"it belongs to run {manifest.run_id}")
    return manifest

"""Copies the checkpoint of another run to where this run's containers may read it.

They reach what is below their own cluster's name, and nothing of another's. S3 copies the objects
itself; each container compares every byte with the manifest, which is copied last.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from trainyard.backends.training_job import large_copies
from trainyard.backends.training_job.directory import S3Directory
from trainyard.backends.training_job.large_copies import Begun, CopyImpossible
from trainyard.domain.errors import BlobNotFound
from trainyard_contracts import places
from trainyard_contracts.files import CheckpointManifest

_AT_ONCE = 16
#: Beside the target: what is copied of objects that are copied in parts.
_BEGUN = ".begun"


class NotThere(Exception):
    """The checkpoint is not whole any more; the message says what is missing."""


def bring(s3: Any, bucket: str, source: str, target: str, in_time: Callable[[], bool]) -> bool:
    """Whether all is copied; False where the time is over. Both prefixes end with a slash.

    Raises NotThere, errors.TrainyardError.
    """
    there = {one.path: one.bytes for one in S3Directory(s3, bucket, target).files()}
    if places.CHECKPOINT_MANIFEST in there:
        return True
    directory = S3Directory(s3, bucket, source)
    try:
        body = directory.read(places.CHECKPOINT_MANIFEST)
        files = CheckpointManifest.model_validate_json(body).files
    except (BlobNotFound, ValueError):
        raise NotThere("its manifest.json is gone, or cannot be read") from None
    left = [one for one in files if there.get(one.path) != one.bytes]
    large = [one.path for one in left if one.bytes > large_copies.MOST_BYTES_OF_A_COPY]
    small = [one.path for one in left if one.bytes <= large_copies.MOST_BYTES_OF_A_COPY]
    try:
        if not _copy(directory, small, target, in_time):
            return False
        kept = S3Directory(s3, bucket, f"{target.rstrip('/')}{_BEGUN}/")
        if not all(_copy_in_parts(directory, path, target, kept, in_time) for path in large):
            return False
        directory.copy(places.CHECKPOINT_MANIFEST, target + places.CHECKPOINT_MANIFEST)
    except BlobNotFound as gone:
        raise NotThere(f"an object of it is gone ({gone.detail})") from None
    except CopyImpossible as why:
        raise NotThere(f"an object of it {why}") from why
    return True


def _copy(
    directory: S3Directory, paths: list[str], target: str, in_time: Callable[[], bool]
) -> bool:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for begin in range(0, len(paths), _AT_ONCE):
            if not in_time():
                return False
            some = paths[begin : begin + _AT_ONCE]
            list(pool.map(lambda path: directory.copy(path, target + path), some))
    return True


def _copy_in_parts(
    directory: S3Directory, path: str, target: str, kept: S3Directory, in_time: Callable[[], bool]
) -> bool:
    """Whether the copy is whole. What is done of it is kept: the next command goes on with it."""
    try:
        begun = Begun.model_validate_json(kept.read(path))
    except (BlobNotFound, ValueError):
        begun = None
    copy = directory.large_copy(path, target + path, begun)

    def go_on() -> bool:
        kept.write(path, copy.begun.model_dump_json().encode())
        return in_time()

    if copy.go_on(go_on) is not None:
        return True
    kept.write(path, copy.begun.model_dump_json().encode())
    return False

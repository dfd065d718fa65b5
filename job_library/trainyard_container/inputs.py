"""Brings the job's data from S3 to this host, whole, before its program starts.

Hosts share no filesystem, so each has a copy of its own.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainyard_contracts import places

from .run_files import UNPACKED_AT, Bundle, inside, unpack
from .store import Changed, Missing, Store, StoreFailed
from .surroundings import Place, Surroundings, Unfit

_AT_ONCE = 16
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
#: In the run's directory: what lies at an absolute path is a link to one of these.
_OWN = "inputs"


def bring(where: Surroundings, bundle: Bundle, stores: Callable[[str], Store]) -> None:
    """`stores` gives a bucket's. Raises Unfit, StoreFailed, OSError."""
    for number, one in enumerate(bundle.get("inputs") or []):
        field = f"inputs.{number}"
        target = _target(where, number, str(one["path"]), field)
        target.mkdir(parents=True, exist_ok=True)
        if code := one.get("code"):
            unpack(stores(where.data.bucket), code["prefix"], code["tree"], target, field)
        else:
            _copy(Place.of(str(one["source"]), field), target, stores, field)
        if str(one["path"]).startswith("/"):
            _link(where, Path(one["path"]), target, field)


def _target(where: Surroundings, number: int, path: str, field: str) -> Path:
    if path.startswith("/"):
        return where.run_dir / _OWN / str(number)
    return inside(where.run_dir / places.WORK, path, field)


def _link(where: Surroundings, path: Path, target: Path, field: str) -> None:
    """At an absolute path; an earlier job of a warm pool may have left such a link of ours."""
    runs = where.run_dir.parent
    if path.is_symlink() and runs in path.readlink().parents:
        path.unlink()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise
        there = "something else lies" if isinstance(error, FileExistsError) else "nothing can lie"
        raise Unfit(
            f"{field}.path: {there} at {path} in the container, such as a channel "
            f"({error.strerror}); give another path",
            lasting=True,
        ) from None


def _copy(source: Place, target: Path, stores: Callable[[str], Store], field: str) -> None:
    store, uri = stores(source.bucket), f"s3://{source.bucket}/{source.prefix}"
    try:
        listed = store.etags(source.prefix)
    except StoreFailed as error:
        raise _refused(field, uri, error) from error
    keys = {key: etag for key, etag in listed.items() if not key.endswith("/")}
    if not keys:
        raise Unfit(
            f"{field}.source: there is nothing below {uri}; give the prefix of what is to be read",
            lasting=True,
        )
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda one: _fetch(store, source, target, field, *one), keys.items()))


def _fetch(store: Store, source: Place, target: Path, field: str, key: str, etag: str) -> None:
    path = inside(target, key.removeprefix(source.prefix).lstrip("/"), field)
    uri = f"s3://{source.bucket}/{key}"
    try:
        store.fetch(key, path, etag)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        raise Unfit(
            f"{field}.source: {uri} is the name of a file and of a directory, and a disk takes one "
            "of them only; rename one of the objects",
            lasting=True,
        ) from None
    except (Missing, Changed):
        raise Unfit(
            f"{field}.source: {uri} was deleted or changed while it was read; nobody may write "
            "there while a job begins"
        ) from None
    except StoreFailed as error:
        raise _refused(field, uri, error) from error
    os.utime(path, (UNPACKED_AT, UNPACKED_AT))  # it is no result of the program's


def _refused(field: str, uri: str, error: StoreFailed) -> Unfit:
    return Unfit(
        f"{field}.source: {uri} cannot be read: {error}; the cluster's jobInputs must hold it, and "
        "its bucket's policy and key must let the job's role read it",
        lasting=error.lasting,
    )

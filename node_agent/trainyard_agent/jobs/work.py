"""The working directory of a run's program: the same at each attempt, with what it left there.

The files of the submission are put there once. One that is missing later is written again if the
bundle itself brought it; what the program changed or made is never touched.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainyard_agent.host.atomic_file import replace_file
from trainyard_agent.host.job_files import open_inside, read_small
from trainyard_contracts import places
from trainyard_contracts.job_bundle import JobBundle
from trainyard_contracts.trees import TREE_BYTES, Tree, tree_id

log = logging.getLogger(__name__)

# The time of each file that was unpacked: one with another time was changed, or replaced.
UNPACKED_AT = 946_684_800
# So many files of a submission are looked at for the line that says which of them were changed.
MOST_LOOKED = 2_000
# In a run's directory: what is being unpacked has a name that begins so.
UNPACKING = ".work-"
_SHOWN = 5
_BLOCK = 1024 * 1024


@dataclass(frozen=True)
class Brought:
    """A file as the submission brought it."""

    bytes: int
    sha256: str


def work_dir(root: Path) -> Path:
    """Of the run's directory."""
    return root / places.WORK


def lay_out(root: Path, bundle: JobBundle) -> None:
    """Write the bundle's files where they are missing. Raises OSError.

    The directory itself is made only where no upload is unpacked there: that is there whole or not
    at all (`code.py`).
    """
    work = work_dir(root)
    if bundle.code is None:
        work.mkdir(parents=True, exist_ok=True)
    for left in root.glob(f"{UNPACKING}*"):  # of an agent that died just after the rename
        shutil.rmtree(left, ignore_errors=True)
    for name, text in bundle.files.items():
        add_missing(work, name, text.encode())


def add_missing(top: Path, name: str, body: bytes) -> None:
    """Write a file unless something is in its place.

    Where the program put a file or a link in the place of a directory, that stays.
    """
    *directories, last = name.split("/")
    here = top
    for part in directories:
        here /= part
        if here.is_symlink() or (here.exists() and not here.is_dir()):
            return
        here.mkdir(exist_ok=True)
    path = here / last
    if not (path.is_symlink() or path.exists()):
        replace_file(path, body)


def unpacked_tree(root: Path, bundle: JobBundle) -> Tree | None:
    """The tree that was unpacked in the working directory; None without one that can be read."""
    if bundle.code is None:
        return None
    try:
        document = read_small(root, root / places.TREE, TREE_BYTES)
        return Tree.model_validate_json(document) if tree_id(document) == bundle.code.tree else None
    except (OSError, ValueError) as error:
        log.warning("%s: its tree cannot be read: %s", bundle.run_id, error)
        return None


def brought(root: Path, bundle: JobBundle) -> Mapping[str, Brought]:
    """The files of the submission by their paths in the working directory."""
    tree = unpacked_tree(root, bundle)
    found = {file.path: Brought(file.bytes, file.sha256) for file in (tree.files if tree else [])}
    for name, text in bundle.files.items():
        body = text.encode()
        found[name] = Brought(len(body), hashlib.sha256(body).hexdigest())
    return found


def brought_links(root: Path, bundle: JobBundle) -> Mapping[str, str]:
    """The links of the submission and where they lead."""
    tree = unpacked_tree(root, bundle)
    return {link.path: link.target for link in (tree.links if tree else [])}


def is_as_brought(top: Path, path: Path, known: Brought | None) -> bool:
    """Whether the file is there with the very bytes that the submission brought."""
    if known is None:
        return False
    try:
        with open_inside(top, path) as stream:
            hashed, size = hashlib.sha256(), 0
            while block := stream.read(_BLOCK):
                hashed.update(block)
                size += len(block)
                if size > known.bytes:
                    return False
    except OSError:
        return False
    return (size, hashed.hexdigest()) == (known.bytes, known.sha256)


def changed(root: Path, bundle: JobBundle) -> str:
    """Which files of the submission the program has changed or removed, in words; '' if none.

    It may pass over some of a large submission: it is for people, and the next attempt waits.
    """
    names = sorted(_changed(root, bundle))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _changed(root: Path, bundle: JobBundle) -> Iterator[str]:
    top = work_dir(root)
    for name, known in list(brought(root, bundle).items())[:MOST_LOOKED]:
        path = top / name
        try:
            about = path.lstat()
        except OSError:
            yield name
            continue
        same = stat.S_ISREG(about.st_mode) and about.st_size == known.bytes
        untouched = same and name not in bundle.files and int(about.st_mtime) == UNPACKED_AT
        if not same or not (untouched or is_as_brought(top, path, known)):
            yield name

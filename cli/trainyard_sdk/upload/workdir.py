"""`job.workdir` of a file is a directory; what is sent is the id of its upload."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from ..client import Client
from ..problems import InvalidInput
from ..progress import Shown
from ..terminal_text import plain
from .packing import TRIES, FileChanged, Packed, pack
from .send import send

_ID = re.compile(r"[0-9a-f]{64}")


def anchored(spec: Mapping[str, Any], file: str) -> dict[str, Any]:
    """The spec of a file, with a path of `job.workdir` that means the same anywhere."""
    given = directory_of(spec)
    if given is None:
        return dict(spec)
    base = Path() if file == "-" else Path(file).parent
    return with_workdir(spec, str((base / Path(given).expanduser()).absolute()))


def as_uploaded(spec: Mapping[str, Any]) -> dict[str, Any]:
    """For a look at the rest of the spec: its directory is taken for one that is up."""
    return dict(spec) if directory_of(spec) is None else with_workdir(spec, "0" * 64)


def with_workdir(spec: Mapping[str, Any], workdir: str) -> dict[str, Any]:
    return {**spec, "job": {**spec["job"], "workdir": workdir}}


def packed_workdir(spec: Mapping[str, Any], *, shown: Shown) -> Packed | None:
    """The packed directory that the spec names; None if it names none, or the id of an upload.

    Raises InvalidInput.
    """
    given = directory_of(spec)
    if given is None:
        return None
    if spec["job"].get("git") is not None:
        raise InvalidInput(
            "The program's code is named twice",
            "job.git and job.workdir are both given",
            "Take one of them out: --set job.git=null, or --set job.workdir=null",
        )
    root = Path(given).expanduser()
    if not root.is_dir():
        raise InvalidInput(
            "The working directory is not there",
            f"job.workdir: '{plain(given)}' is not a directory",
            "Give the path of a directory, relative to the spec's own directory",
        )
    with shown("Reading the directory") as told:
        packed = pack(root, told)
    _check_script(spec, packed)
    return packed


def brought_up(
    client: Client, spec: Mapping[str, Any], packed: Packed, *, shown: Shown
) -> tuple[Packed, int]:
    """Upload the directory; what was uploaded, and how many packs had to be sent for it.

    One that changes meanwhile is packed again.
    """
    for _ in range(TRIES):
        try:
            with shown("Uploading") as told:
                return packed, send(client, packed, told)
        except FileChanged as changed:
            name, again = changed.path, packed_workdir(spec, shown=shown)
            assert again is not None
            packed = again
    raise InvalidInput(
        "A file changes while it is uploaded",
        f"job.workdir: '{plain(name)}' changed in each of {TRIES} tries",
        "Stop what writes it, or name it in .trainyardignore",
    )


def old_checkpoints(spec: Mapping[str, Any], packed: Packed) -> list[str]:
    """What goes up and has the name of a checkpoint that the run watches for."""
    checkpoint = spec.get("checkpoint")
    watch = checkpoint.get("watch") if isinstance(checkpoint, dict) else None
    given = watch.get("pattern") if isinstance(watch, dict) else None
    patterns = [one.split("/") for one in _several(given)]
    paths = {file.path for file in packed.tree.files}
    paths |= {str(parent) for path in paths for parent in PurePosixPath(path).parents}
    return sorted(path for path in paths if any(_fits(path.split("/"), one) for one in patterns))


def _several(given: Any) -> list[str]:
    return [one for one in (given if isinstance(given, list) else [given]) if isinstance(one, str)]


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern or not parts:
        return not parts and all(one == "**" for one in pattern)
    if pattern[0] == "**":
        return _fits(parts, pattern[1:]) or _fits(parts[1:], pattern)
    return fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def directory_of(spec: Mapping[str, Any]) -> str | None:
    """The path that it names; None for the id of an upload, or nothing."""
    job = spec.get("job")
    given = job.get("workdir") if isinstance(job, dict) else None
    return given if isinstance(given, str) and not _ID.fullmatch(given) else None


def _check_script(spec: Mapping[str, Any], packed: Packed) -> None:
    """A script that did not come along would cost a cluster before somebody saw it."""
    job = spec["job"]
    script, files = job.get("script"), job.get("files") or {}
    if not isinstance(script, str) or not isinstance(files, dict) or script in files:
        return
    there = {file.path for file in packed.tree.files} | {link.path for link in packed.tree.links}
    root = packed.scan.root
    real = os.path.relpath(os.path.realpath(root / script), os.path.realpath(root))
    if script in there:
        return
    if real.startswith("../"):
        detail = f"'{plain(script)}' lies outside of the directory {root}"
        next_step = "Put it into the directory, or name the directory above as job.workdir"
    elif real in there:  # what the API sees are files and links, and nothing behind a link
        detail, next_step = f"'{plain(script)}' is behind a link", f"Write '{plain(real)}'"
    elif (root / script).exists():
        detail = f"'{plain(script)}' is left out by .gitignore or .trainyardignore"
        next_step = f"Add a line '!{plain(script)}' to {root / '.trainyardignore'}"
    else:
        nearest = difflib.get_close_matches(script, there, n=1)
        detail = f"'{plain(script)}' is not in {root}"
        next_step = (
            f"Did you mean '{plain(nearest[0])}'?"
            if nearest
            else "Give its path relative to job.workdir"
        )
    raise InvalidInput("The script does not come along", f"job.script: {detail}", next_step)

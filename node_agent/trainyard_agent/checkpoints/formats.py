"""Tells from its own bytes whether what a program saved is whole.

A format may prove it, may disprove it, or may say nothing.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Literal

from trainyard_agent.checkpoints.completeness import complete, sealed
from trainyard_agent.checkpoints.json_format import prove_json
from trainyard_agent.checkpoints.safetensors_format import prove_safetensors
from trainyard_agent.checkpoints.torn import Pause, Torn, nothing
from trainyard_agent.checkpoints.zip_format import BROKEN, STRANGE, prove_zip, see_end
from trainyard_agent.host.job_files import open_inside

#: Files of weights or state: an empty one is not whole.
_WEIGHTS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".npz", ".pkl", ".distcp")


def prove(root: Path, names: Collection[str], *, ranks: int | None, pause: Pause = nothing) -> bool:
    """Whether these files below `root` prove that they are whole; False: they say nothing.

    Of a directory they are all files. `ranks`: how many processes the job has, None if it is not
    known. Raises Torn, and OSError where something cannot be read just now.
    """
    listed = {PurePosixPath(name) for name in names}
    complete(root, listed, ranks)
    proven = [proves(root, str(name), pause) for name in sorted(listed)]
    return all(proven) or sealed(listed)


def proves(root: Path, name: str, pause: Pause = nothing) -> bool:
    """Whether the file proves that it is whole; False: its format says nothing.

    Raises Torn, and OSError where it cannot be read just now.
    """
    with open_inside(root, root / name) as stream:
        size = os.fstat(stream.fileno()).st_size
        if not size:
            if name.endswith(_WEIGHTS):
                raise Torn(f"{name} is empty")
            return True
        first = stream.read(8)
        stream.seek(0)
        if name.endswith(".safetensors"):
            prove_safetensors(stream, name, size)
        elif first.startswith(b"PK\x03\x04"):
            return prove_zip(stream, name, size, pause)
        elif name.endswith(".json"):
            return prove_json(stream, name, size)
        else:
            return False
    return True


def glance(root: Path, names: Collection[str]) -> Literal["early", "provable", "silent"]:
    """What a look at beginnings and ends says: a file ends early, or all can prove themselves.

    It finds most of what is still being written. Raises OSError.
    """
    kinds = {_glance(root, name) for name in names}
    if "early" in kinds:
        return "early"
    if "silent" in kinds and not sealed({PurePosixPath(name) for name in names}):
        return "silent"
    return "provable"


def _glance(root: Path, name: str) -> str:
    with open_inside(root, root / name) as stream:
        size = os.fstat(stream.fileno()).st_size
        first = stream.read(8)
        stream.seek(0)
        if not size:
            return "early" if name.endswith(_WEIGHTS) else "provable"
        try:
            if name.endswith(".safetensors"):
                prove_safetensors(stream, name, size)
            elif first.startswith(b"PK\x03\x04"):
                see_end(stream, size)
                zipfile.ZipFile(stream).close()
            elif not name.endswith(".json"):
                return "silent"
        except (Torn, *BROKEN):
            return "early"
        except STRANGE:
            return "silent"
    return "provable"

"""Tells from its own bytes whether what a program saved is whole.

A format may prove it, may disprove it, or may say nothing.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Literal

from trainyard_agent.host.job_files import open_inside

_BLOCK = 1024 * 1024
#: A JSON file beside the weights is read up to this size, and so is safetensors' header.
_JSON_BYTES = 64 * 1024 * 1024
#: What a compressed archive may unpack to, in sizes of itself: a larger one proves nothing.
_MOST_RATIO = 100
#: Files of weights or state: an empty one is not whole.
_WEIGHTS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".npz", ".pkl", ".distcp")
_OF_RANK = re.compile(r"^(rng_state|random_states)_(\d{1,6})\.(?:pth|pkl)$")

Pause = Callable[[], None]


class Torn(Exception):
    """It is not whole; the text says which file and how."""


def nothing() -> None:
    """For who need not spare anybody's processor."""


def prove(root: Path, names: Collection[str], *, ranks: int | None, pause: Pause = nothing) -> bool:
    """Whether these files below `root` prove that they are whole; False: they say nothing.

    Of a directory they are all files. `ranks`: how many processes the job has, None if it is not
    known. Raises Torn, and OSError where something cannot be read just now.
    """
    listed = {PurePosixPath(name) for name in names}
    complete(root, listed, ranks)
    proven = [proves(root, str(name), pause) for name in sorted(listed)]
    return all(proven) or sealed(listed)


def sealed(listed: Collection[PurePosixPath]) -> bool:
    """Whether the file is there that its library writes last."""
    return any(name.name in ("trainer_state.json", ".metadata") for name in listed)


def complete(root: Path, listed: Collection[PurePosixPath], ranks: int | None) -> None:
    """No file of a directory is missing that another one speaks of. Raises Torn, OSError."""
    by_directory: dict[PurePosixPath, set[str]] = {}
    for path in listed:
        by_directory.setdefault(path.parent, set()).add(path.name)
    for directory, names in by_directory.items():
        if "training_args.bin" in names and _is_trainers(directory):
            _needs(directory, names, "trainer_state.json")
        if any(name.endswith(".distcp") for name in names):
            _needs(directory, names, ".metadata")
        for name in names:
            if name.endswith(".index.json"):
                for shard in _shards(root, directory / name):
                    _needs(directory, names, shard)
        _all_ranks(directory, names, ranks)


def _is_trainers(directory: PurePosixPath) -> bool:
    """A checkpoint of Hugging Face's Trainer, and not a model that it saved at the end."""
    return re.fullmatch(r"checkpoint-\d+", directory.name) is not None


def _needs(directory: PurePosixPath, names: Collection[str], name: str) -> None:
    if name not in names:
        raise Torn(f"{directory / name} is missing")


def _shards(root: Path, index: PurePosixPath) -> set[str]:
    try:
        found = json.loads(_small(root, index))
        shards = found.get("weight_map", {}) if isinstance(found, dict) else {}
        return {str(shard) for shard in shards.values()} if isinstance(shards, dict) else set()
    except (ValueError, RecursionError) as error:
        raise Torn(f"{index} is cut off") from error


def _all_ranks(directory: PurePosixPath, names: Collection[str], ranks: int | None) -> None:
    """Where each rank writes a file of its own, none is missing."""
    kinds: dict[str, set[int]] = {}
    for name in names:
        if match := _OF_RANK.match(name):
            kinds.setdefault(match.group(1), set()).add(int(match.group(2)))
    for kind, numbers in kinds.items():
        wanted = set(range(max(max(numbers) + 1, ranks or 0)))
        if missing := sorted(wanted - numbers):
            raise Torn(f"{directory}: {kind} of rank {missing[0]} is missing")


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
            _safetensors(stream, name, size)
        elif first.startswith(b"PK\x03\x04"):
            return _zip(stream, name, size, pause)
        elif name.endswith(".json"):
            return _json(stream, name, size)
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
                _safetensors(stream, name, size)
            elif first.startswith(b"PK\x03\x04"):
                _see_end(stream, size)
                zipfile.ZipFile(stream).close()
            elif not name.endswith(".json"):
                return "silent"
        except (Torn, *_BROKEN):
            return "early"
        except _STRANGE:
            return "silent"
    return "provable"


#: Kinds of members that are read; others' readers raise what looks like an error of the disk.
_READ = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: What zipfile raises for archives that it cannot read, though they may be whole.
_STRANGE = (NotImplementedError, RuntimeError, OverflowError)
#: What zipfile raises for bytes that are no whole archive.
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    struct.error,
    UnicodeDecodeError,
    ValueError,
)


def _zip(stream: IO[bytes], name: str, size: int, pause: Pause) -> bool:
    """torch.save's and numpy's archives: a directory at the end, and a CRC of each member."""
    _see_end(stream, size)
    try:
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            if (
                any(member.compress_type not in _READ for member in members)
                or sum(member.file_size for member in members) > _MOST_RATIO * size
            ):
                return False
            wrong = [member for member in members if not _has_its_crc(archive, member, pause)]
            if wrong and not _without_crcs(members, wrong):
                raise Torn(f"{name}: {wrong[0].filename[:200]} does not have its CRC")
    except _STRANGE:
        return False
    except _BROKEN as error:
        raise Torn(f"{name}: {_in_words(error)}") from error
    return not wrong


def _has_its_crc(archive: zipfile.ZipFile, member: zipfile.ZipInfo, pause: Pause) -> bool:
    try:
        with archive.open(member) as content:
            while content.read(_BLOCK):
                pause()
    except zipfile.BadZipFile as error:
        if str(error).startswith("Bad CRC-32"):
            return False
        raise
    return True


def _without_crcs(members: Sequence[zipfile.ZipInfo], wrong: Sequence[zipfile.ZipInfo]) -> bool:
    """Whether torch was asked to leave the CRCs out, which is faster: then all of them are wrong.

    Such a file proves nothing.
    """
    held = [member for member in members if member.file_size]
    return len(held) >= 3 and len(wrong) == len(held)


def _see_end(stream: IO[bytes], size: int) -> None:
    """Raise OSError if the end cannot be read just now: zipfile calls that no zip file."""
    stream.seek(max(0, size - 70_000))
    stream.read()
    stream.seek(0)


def _in_words(error: Exception) -> str:
    text = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return "it ends early" if "not a zip file" in text else text


def _safetensors(stream: IO[bytes], name: str, size: int) -> None:
    """A header that says how much follows it."""
    (length,) = struct.unpack("<Q", (stream.read(8) + b"\0" * 8)[:8])
    if length > min(_JSON_BYTES, size - 8):
        raise Torn(f"{name}: it ends early")
    try:
        header = json.loads(stream.read(length))
        ends = [_end(entry) for key, entry in header.items() if key != "__metadata__"]
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
        raise Torn(f"{name}: its header is not one of safetensors") from error
    wanted = 8 + length + max(ends, default=0)
    if wanted != size:
        raise Torn(f"{name} has {size} bytes, its header says {wanted}")


def _end(entry: Mapping[str, list[int]]) -> int:
    return int(entry["data_offsets"][1])


def _json(stream: IO[bytes], name: str, size: int) -> bool:
    if size > _JSON_BYTES:
        return False
    try:
        json.load(stream)
    except (ValueError, RecursionError) as error:
        if getattr(error, "msg", "") == "Extra data":
            return False  # more than one value: lines of JSON, which end wherever they end
        raise Torn(f"{name} is cut off") from error
    return True


def _small(root: Path, name: PurePosixPath) -> bytes:
    with open_inside(root, root / name) as stream:
        return stream.read(_JSON_BYTES)

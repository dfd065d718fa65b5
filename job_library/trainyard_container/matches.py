"""What a program's own checkpoints are called, and whether one is whole by its own bytes."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainyard_contracts import places

#: Patterns are relative to these, both of them.
ROOTS = (places.WORK, places.OUTPUT)
#: So many of the newest are looked at, of so many files each.
MOST_MATCHES, MOST_FILES = 64, 10_000
#: How the program's own is called once it was set aside.
ASIDE = ".torn-attempt-"
_NUMBER, _PLAIN = re.compile(r"\d+"), re.compile(r"[^A-Za-z0-9_.=+@-]")
#: A number that says how far training was: by the word before it, or the last one of a name.
_STEPS = re.compile(r"(?i)(?:step|iter|iteration|update)s?[-_=. ]{0,2}(\d{1,12})(?![\d.]*\d)")
_NAMED = re.compile(
    r"(?i)(?:checkpoint|ckpt|snapshot|epoch|save|state|model)s?[-_=. ]{0,2}(\d{1,12})(?!\d|\.\d)"
)
_JSON_BYTES = 64 * 1024 * 1024
_BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, struct.error, ValueError, TypeError,
    LookupError, ArithmeticError, AttributeError,
)  # fmt: skip


class Torn(Exception):
    """It is not whole; the message says which file and how."""


@dataclass(frozen=True)
class Match:
    """One file or directory; names are relative to the run's directory. `files`: name, size and
    time of each.
    """

    name: str
    directory: bool
    files: tuple[tuple[str, int, int], ...]

    @property
    def signature(self) -> str:
        """Changes when a file of it is written to, comes or goes."""
        text = "|".join(f"{name}:{size}:{at}" for name, size, at in self.files)
        return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()

    @property
    def modified_ns(self) -> int:
        return max(at for _, _, at in self.files)

    @property
    def series(self) -> str:
        """Names that differ in numbers only are one: the directory of their copies."""
        series = _NUMBER.sub("N", self.name)
        plain = _PLAIN.sub("_", series.replace("/", "+"))[:80].lstrip(".")
        return f"{plain}-{hashlib.sha256(series.encode()).hexdigest()[:8]}"


def step_in(name: str) -> int | None:
    """The step, or else the epoch, that a name says; None if it says none."""
    stem = re.sub(r"(?<=.)\.[A-Za-z][A-Za-z0-9]{0,11}$", "", name.rpartition("/")[2])
    found = _STEPS.findall(stem) or _NAMED.findall(stem)
    return int(found[-1]) if found else None


def find(run_dir: Path, patterns: Sequence[str]) -> list[Match]:
    """The newest, oldest first. Raises OSError."""
    paths = {
        path
        for root in ROOTS
        for pattern in patterns
        for path in (run_dir / root).glob(pattern)
        if not path.name.startswith(ASIDE)
    }
    outer = [path for path in paths if not any(above in paths for above in path.parents)]
    found = [match for path in outer if (match := look(run_dir, path)) is not None]
    return sorted(found, key=lambda match: match.modified_ns)[-MOST_MATCHES:]


def look(run_dir: Path, path: Path) -> Match | None:
    """What has this name now; None if there is nothing that can be copied."""
    try:
        about = path.lstat()
        directory = stat.S_ISDIR(about.st_mode)
        inner = sorted(_below(path)) if directory else [path]
        files = []
        for one in inner:
            at = one.lstat()
            if stat.S_ISREG(at.st_mode):
                name = one.relative_to(run_dir).as_posix()
                name.encode()
                files.append((name, at.st_size, at.st_mtime_ns))
    except (FileNotFoundError, UnicodeEncodeError):
        return None
    if not files or len(files) > MOST_FILES:
        return None
    return Match(path.relative_to(run_dir).as_posix(), directory, tuple(files))


def _below(path: Path) -> Iterator[Path]:
    for folder, _folders, names in os.walk(path):
        for name in names:
            yield Path(folder, name)


def proven(root: Path, match: Match) -> bool:
    """Whether its files show that they are whole; False: their formats say nothing. Raises Torn,
    OSError.
    """
    names = [name for name, _, _ in match.files]
    listed = {name.rpartition("/")[2] for name in names}
    if any(name.endswith(".distcp") for name in listed) and ".metadata" not in listed:
        raise Torn(f"{match.name}: .metadata is missing")
    is_trainers = "training_args.bin" in listed and re.search(r"checkpoint-\d+$", match.name)
    if is_trainers and "trainer_state.json" not in listed:
        raise Torn(f"{match.name}: trainer_state.json is missing")
    found = [_proves(root / name, name) for name in names]  # each may be torn
    return all(found)


def _proves(path: Path, name: str) -> bool:
    size = path.stat().st_size
    with open(path, "rb") as stream:
        first = stream.read(8)
        stream.seek(0)
        try:
            if name.endswith(".safetensors"):
                (length,) = struct.unpack("<Q", first)
                stream.seek(8)
                header = json.loads(stream.read(min(length, _JSON_BYTES)))
                ends = [int(e["data_offsets"][1]) for k, e in header.items() if k[:2] != "__"]
                if 8 + length + max(ends, default=0) != size:
                    raise Torn(f"{name} has {size} bytes, and its header says another number")
                return True
            if first.startswith(b"PK\x03\x04"):
                with zipfile.ZipFile(stream) as archive:
                    if (wrong := archive.testzip()) is not None:
                        raise Torn(f"{name}: {wrong[:200]} does not have its CRC")
                return True
            if name.endswith(".json") and size <= _JSON_BYTES:
                json.load(stream)
                return True
        except _BROKEN as error:
            raise Torn(f"{name}: {str(error)[:200] or type(error).__name__}") from None
        except (NotImplementedError, RuntimeError):
            return False
    if not size and name.endswith((".pt", ".pth", ".bin", ".ckpt", ".npz", ".pkl", ".distcp")):
        raise Torn(f"{name} is empty")
    return False

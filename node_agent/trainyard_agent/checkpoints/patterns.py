"""Finds the files and directories that a program's checkpoints are called, within bounds.

It follows no link and reads nothing but names, sizes and times.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from trainyard_agent.host.job_files import may_pass
from trainyard_contracts import places

#: Patterns are relative to these, both of them.
ROOTS = (places.WORK, places.OUTPUT)
#: So many of the newest matches are looked at: a pattern that fits everything costs no more.
MOST_MATCHES = 64
#: So many names are read in one look for matches.
MOST_NAMES = 20_000
#: A directory that matches may have so many files.
MOST_FILES = 10_000
#: '**' in a pattern leads so many directories deep.
MOST_DEPTH = 32
#: A longer name cannot be an object's in S3, below the export's prefix.
MOST_CHARACTERS = 600
# How the program's own is called once it was set aside, and a copy before it has its name.
ASIDE, PUTTING = ".torn-attempt-", ".putting-back-"
_NUMBER = re.compile(r"\d+")
_PLAIN = re.compile(r"[^A-Za-z0-9_.=+@-]")
# A number in a name that says how far training was, by the word before it.
_STEPS = re.compile(r"(?i)(?:step|iter|iteration|update)s?[-_=. ]{0,2}(\d{1,12})(?![\d.]*\d)")
_NAMED = re.compile(
    r"(?i)(?:checkpoint|ckpt|snapshot|epoch|save|state|model)s?[-_=. ]{0,2}(\d{1,12})(?!\d|\.\d)"
)
_LAST = re.compile(r"(?:^|[-_=])(\d{1,12})$")


@dataclass(frozen=True)
class File:
    """A regular file of a match; `name` is relative to the run's directory."""

    name: str
    size: int
    modified_ns: int


def series_of(name: str) -> str:
    """Names that differ in numbers only are one series: checkpoint-100, checkpoint-200."""
    return _NUMBER.sub("N", name)


@dataclass(frozen=True)
class Match:
    """What a pattern fits; `name` is relative to the run's directory."""

    name: str
    directory: bool
    files: tuple[File, ...]

    @property
    def series(self) -> str:
        return series_of(self.name)

    @cached_property
    def modified_ns(self) -> int:
        return max((file.modified_ns for file in self.files), default=0)

    @cached_property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @cached_property
    def signature(self) -> str:
        """Changes when a file of it is written to, comes or goes; the same on a faithful copy."""
        text = "|".join(f"{file.name}:{file.size}:{file.modified_ns}" for file in self.files)
        return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()

    @property
    def step(self) -> int | None:
        return step_in(self.name)


@dataclass
class Found:
    """`cut`: why not all is in it; '' if all is."""

    matches: list[Match] = field(default_factory=list)
    cut: str = ""


def store_name(series: str) -> str:
    """Of the directory with a series' copies: plain, and of no other series."""
    plain = _PLAIN.sub("_", series.replace("/", "+"))[:80].lstrip(".")
    return f"{plain}-{hashlib.sha256(series.encode(errors='surrogateescape')).hexdigest()[:8]}"


def step_in(name: str) -> int | None:
    """The step, or else the epoch, that a name says; None if it says none."""
    last = name.rpartition("/")[2]
    stem = re.sub(r"(?<=.)\.[A-Za-z][A-Za-z0-9]{0,11}$", "", last)
    for pattern in (_STEPS, _NAMED, _LAST):
        if numbers := pattern.findall(stem):
            return int(numbers[-1])
    return None


def find(root: Path, patterns: Sequence[str]) -> Found:
    """The newest matches below the run's directory, oldest first.

    Raises OSError where they cannot be seen just now.
    """
    budget, found = _Budget(), Found()
    entries: dict[Path, os.stat_result] = {}
    for base in ROOTS:
        for pattern in patterns:
            for path in _expand(root / base, tuple(pattern.split("/")), budget, 0):
                about = _lstat(path)
                if about is not None and (
                    stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)
                ):
                    entries[path] = about
    outer = [path for path in entries if not any(one in entries for one in path.parents)]
    outer.sort(key=lambda path: entries[path].st_mtime_ns)
    if budget.spent or len(outer) > MOST_MATCHES:
        found.cut = (
            f"more than {MOST_NAMES} names were looked at"
            if budget.spent
            else f"{len(outer)} files and directories match; the newest {MOST_MATCHES} are watched"
        )
    for path in outer[-MOST_MATCHES:]:
        match = look(root, str(path.relative_to(root)))
        if match is not None and len(match.files) > MOST_FILES:
            found.cut = found.cut or f"'{match.name}' has more than {MOST_FILES} files"
        elif match is not None and match.files:
            found.matches.append(match)
    found.matches.sort(key=lambda match: match.modified_ns)
    return found


def look(root: Path, name: str) -> Match | None:
    """What has this name now; None if it is gone, or a name in it cannot be an object's in S3.

    Raises OSError where that cannot be seen.
    """
    match = _look(root, name)
    plain = match is None or all(
        len(file.name) <= MOST_CHARACTERS and file.name.isprintable() for file in match.files
    )
    return match if plain else None


def _look(root: Path, name: str) -> Match | None:
    path = root / name
    about = _lstat(path)
    if about is None or not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
        return None
    if stat.S_ISREG(about.st_mode):
        return Match(name, False, (File(name, about.st_size, about.st_mtime_ns),))
    files = []
    for directory, directories, names in os.walk(path, onerror=_unless_gone):
        directories.sort()
        for one in sorted(names):
            inner = Path(directory, one)
            at = _lstat(inner)
            if at is not None and stat.S_ISREG(at.st_mode):
                files.append(File(str(inner.relative_to(root)), at.st_size, at.st_mtime_ns))
        if len(files) > MOST_FILES:
            break
    return Match(name, True, tuple(sorted(files, key=lambda file: file.name)))


class _Budget:
    def __init__(self) -> None:
        self._left = MOST_NAMES

    @property
    def spent(self) -> bool:
        return self._left <= 0

    def take(self) -> bool:
        self._left -= 1
        return self._left > 0


def _expand(root: Path, parts: tuple[str, ...], budget: _Budget, depth: int) -> Iterator[Path]:
    if depth > MOST_DEPTH:
        return
    head, rest = parts[0], parts[1:]
    if head == "**":
        rest = rest or ("*",)
        yield from _expand(root, rest, budget, depth)
    for entry in _entries(root, budget):
        hidden = entry.name.startswith(".") and not head.startswith(".")
        if hidden or entry.name.startswith((ASIDE, PUTTING)):
            continue
        if head == "**":
            if entry.is_dir(follow_symlinks=False):
                yield from _expand(Path(entry.path), (head, *rest), budget, depth + 1)
        elif fnmatchcase(entry.name, head):
            if not rest:
                yield Path(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                yield from _expand(Path(entry.path), rest, budget, depth + 1)


def _entries(root: Path, budget: _Budget) -> list[os.DirEntry[str]]:
    found = []
    try:
        if root.is_symlink():
            return []
        with os.scandir(root) as entries:
            for entry in entries:
                if not budget.take():
                    break
                found.append(entry)
    except OSError as error:
        _unless_gone(error)
    return found


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError as error:
        _unless_gone(error)
        return None


def _unless_gone(error: OSError) -> None:
    """What was removed meanwhile, or is not ours to read, is not there."""
    if may_pass(error) and not isinstance(error, PermissionError):
        raise error

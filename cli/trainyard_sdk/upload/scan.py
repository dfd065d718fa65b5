"""Finds what of a directory goes up, and refuses by name what cannot arrive as it is."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trainyard_contracts.trees import MOST_FILES, UPLOAD_BYTES, tree_path

from ..problems import InvalidInput
from ..progress import bytes_text
from ..terminal_text import plain
from .rules import Rules

#: A refusal lists so many names.
_TOLD = 10
_NEXT = "Correct that, or name it in .trainyardignore (as in a .gitignore), and do it again"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file as it was when it was looked at."""

    path: str
    bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    executable: bool

    @classmethod
    def of(cls, path: str, seen: os.stat_result) -> Entry:
        return cls(
            path,
            seen.st_size,
            seen.st_mtime_ns,
            seen.st_ctime_ns,
            seen.st_ino,
            bool(seen.st_mode & stat.S_IXUSR),
        )


@dataclass
class Scan:
    """Everything below `root` that goes up, each list in the order of its paths."""

    root: Path
    files: list[Entry] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    #: Sockets, FIFOs and devices: they are no data.
    skipped: list[str] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(entry.bytes for entry in self.files)

    def largest(self, number: int = 5) -> list[tuple[str, int]]:
        """The largest files and directories on top of each other, directories with a slash."""
        sizes: Counter[str] = Counter()
        for entry in self.files:
            top, slash, _ = entry.path.partition("/")
            sizes[top + slash] += entry.bytes
        return sizes.most_common(number)

    def most_files(self, number: int = 5) -> list[tuple[str, int]]:
        """The directories on top with the most files."""
        return Counter(entry.path.partition("/")[0] + "/" for entry in self.files).most_common(
            number
        )


def scan(root: Path, rules: Rules = Rules()) -> Scan:
    """Raises InvalidInput with every name that cannot go up."""
    found = _Walk(root)
    found.walk("", rules)
    found.check_links()
    if found.wrong:
        names = [f"'{shown(path)}' {words}" for path, words in found.wrong[:_TOLD]]
        more = len(found.wrong) - len(names)
        raise InvalidInput(
            "The directory cannot go up as it is",
            f"{root}: {'; '.join(names)}{f'; and {more} more' if more else ''}",
            _NEXT,
        )
    for entries in (found.scan.files, found.scan.links, found.scan.directories):
        entries.sort(key=_path)
    return found.scan


def shown(path: str) -> str:
    """A name in one line, whatever is in it."""
    return plain(path.encode(errors="backslashreplace").decode()).replace("\n", "\\n")


def _path(entry: Entry | tuple[str, str] | str) -> str:
    """Sorting by code points is sorting by the bytes of UTF-8."""
    if isinstance(entry, Entry):
        return entry.path
    return entry if isinstance(entry, str) else entry[0]


class _Walk:
    """One walk over the directory, which goes on behind what is wrong, to tell all of it."""

    def __init__(self, root: Path) -> None:
        self.scan = Scan(root)
        self.wrong: list[tuple[str, str]] = []

    def walk(self, directory: str, above: Rules) -> bool:
        """Whether anything of it goes up."""
        where = os.path.join(self.scan.root, directory)
        try:
            rules = above.entered(where, os.fsencode(directory))
            with os.scandir(where) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            self.wrong.append((directory or ".", f"cannot be read: {error.strerror}"))
            return True
        below = f"{directory}/" if directory else ""
        kept = [self._take(below + entry.name, entry, rules) for entry in entries]
        return any(kept)

    def _take(self, path: str, entry: os.DirEntry[str], rules: Rules) -> bool:
        directory = entry.is_dir(follow_symlinks=False)
        if rules.leave_out(os.fsencode(path), directory=directory):
            return False
        try:
            tree_path(path)
        except ValueError as error:
            self.wrong.append((path, f"has a name that cannot go up: it {error}"))
            return True
        if directory:
            if not self.walk(path, rules):
                self.scan.directories.append(path)
            return True
        return self._take_file(path, entry)

    def _take_file(self, path: str, entry: os.DirEntry[str]) -> bool:
        try:
            seen = entry.stat(follow_symlinks=False)
            if stat.S_ISLNK(seen.st_mode):
                self.scan.links.append((path, os.readlink(entry.path)))
            elif stat.S_ISREG(seen.st_mode):
                self._add(Entry.of(path, seen))
            else:
                self.scan.skipped.append(path)
                return False
        except FileNotFoundError:
            return False  # gone since the directory was read
        except OSError as error:
            self.wrong.append((path, f"cannot be read: {error.strerror}"))
        return True

    def _add(self, entry: Entry) -> None:
        self.scan.files.append(entry)
        # Nobody waits for a walk over millions of files only to be refused.
        if len(self.scan.files) > 2 * MOST_FILES:
            raise too_much(self.scan, f"over {len(self.scan.files) - 1} files, of {MOST_FILES}")

    def check_links(self) -> None:
        """A link must lead to what goes up, too, by a way that is there on the node."""
        there = {entry.path for entry in self.scan.files} | set(self.scan.directories)
        links = {path for path, _ in self.scan.links}
        parents = {parent for path in [*there, *links] for parent in _parents(path)}
        real_root = os.path.realpath(self.scan.root)
        for path, target in self.scan.links:
            if words := _wrong_link(self.scan.root, real_root, path, target, there | parents):
                self.wrong.append((path, words))


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _wrong_link(root: Path, real_root: str, path: str, target: str, there: set[str]) -> str:
    """What is wrong with a symbolic link, and what to do; '' if nothing is."""
    copy = "put a copy in its place"
    if os.path.isabs(target):
        return (
            f"is a link to '{shown(target)}', which nodes do not have; {copy}, or make it relative"
        )
    straight = os.path.normpath(os.path.join(os.path.dirname(path), target))
    real = os.path.relpath(os.path.realpath(os.path.join(root, path)), real_root)
    if straight.startswith("..") or real.startswith(".."):
        return f"is a link out of the directory, to '{shown(target)}'; {copy}"
    if not os.path.exists(os.path.join(root, path)):
        return f"is a link to '{shown(target)}', which is not there; remove it"
    if real != "." and real not in there:
        return f"is a link to '{shown(target)}', which is left out; leave out the link, too"
    direct = os.path.relpath(straight, os.path.dirname(path) or ".")
    if _winds(target):
        return f"is a link by a detour, '{shown(target)}'; make it '{shown(direct)}'"
    try:
        target.encode()
    except UnicodeEncodeError:
        return "is a link to a name that is not UTF-8; rename it"
    return ""


def _winds(target: str) -> bool:
    """Whether it goes up after it went down: by a link on that way it could lead anywhere."""
    parts = target.rstrip("/").split("/")
    first_down = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    return ".." in parts[first_down:] or "" in parts


def too_much(found: Scan, what: str) -> InvalidInput:
    """The refusal of a directory that is over a limit, with what it is made of."""
    largest = ", ".join(f"{shown(path)} {bytes_text(size)}" for path, size in found.largest())
    most = ", ".join(f"{shown(path)} {count}" for path, count in found.most_files())
    return InvalidInput(
        "The directory is too much to upload",
        f"{found.root}: {what} at most. Largest: {largest}. Most files: {most}",
        "Name what the program does not need in .trainyardignore (as in a .gitignore); "
        "larger data belong into a bucket of yours, from which a run copies them (inputs)",
    )


def check_size(found: Scan) -> None:
    """Raises InvalidInput for more files or bytes than may go up."""
    if len(found.files) > MOST_FILES or len(found.links) > MOST_FILES:
        raise too_much(found, f"{len(found.files)} files, of {MOST_FILES}")
    if found.bytes > UPLOAD_BYTES:
        raise too_much(found, f"{bytes_text(found.bytes)}, of {bytes_text(UPLOAD_BYTES)}")

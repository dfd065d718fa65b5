"""Makes a tree and packs of a directory: the same ones for the same directory on any machine."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from trainyard_contracts.trees import (
    MOST_PACKS,
    PACK_BYTES,
    TREE_BYTES,
    Chunk,
    Pack,
    Tree,
    TreeFile,
    TreeLink,
    UploadSpec,
    tree_id,
)

from ..problems import InvalidInput
from .index import Index, now_ns
from .rules import Rules
from .scan import Entry, Scan, check_size, scan, shown, too_much

#: A pack of whole files ends at this size, so that one changed file sends little again.
SMALL_BYTES = 16 * 1024 * 1024
#: A pack ends after so many files on average; of a directory with very many files after more of
#: them, so that it has no more packs than an upload may have.
FILES_IN_PACK, FILES_IN_PACK_OF_MANY, MANY_FILES = 64, 256, 60_000
_BLOCK = 1024 * 1024
#: A file that changes under our hands is read again so often, with a pause before it.
TRIES, PAUSE_SECONDS = 3, 0.5


class FileChanged(Exception):
    """A file is no longer what it was when it was looked at."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@dataclass(frozen=True)
class Piece:
    """Some bytes of a file that go into a pack."""

    path: str
    offset: int
    bytes: int


@dataclass
class Packed:
    """A directory that is ready to go up. Contents are read when they are sent."""

    scan: Scan
    tree: Tree
    document: bytes
    sources: dict[str, tuple[Piece, ...]]
    read_bytes: int = 0

    @property
    def id(self) -> str:
        return tree_id(self.document)

    @property
    def upload(self) -> UploadSpec:
        return UploadSpec(
            tree=Pack(sha256=self.id, bytes=len(self.document)), packs=self.tree.packs
        )

    def contents(self, sha256: str) -> Iterator[bytes]:
        """A pack's bytes, or the tree's document, block by block.

        Raises FileChanged before the last block if they are not what was hashed.
        """
        if sha256 == self.id:
            yield self.document
            return
        digest, held = hashlib.sha256(), b""
        for piece in self.sources[sha256]:
            for block in _blocks(self.scan.root, piece):
                if held:
                    yield held
                digest.update(block)
                held = block
        if digest.hexdigest() != sha256:
            raise FileChanged(_changed_one(self, sha256))
        yield held


def pack(
    root: Path,
    told: Callable[[int, int], None] = lambda _done, _total: None,
    rules: Rules = Rules(),
) -> Packed:
    """Pack a directory. `told` is called with the bytes that were read, and all to be read.

    Raises InvalidInput with what is wrong and what to do.
    """
    index = Index(root)
    for left in reversed(range(TRIES)):
        found = scan(root, rules)
        check_size(found)
        try:
            return _Packing(found, index, told).packed()
        except FileChanged as changed:
            if not left:
                raise InvalidInput(
                    "A file changes while it is packed",
                    f"{root}: '{shown(changed.path)}' changed in each of {TRIES} tries",
                    "Stop what writes it, or name it in .trainyardignore",
                ) from None
            time.sleep(PAUSE_SECONDS)
        finally:
            index.save()
    raise AssertionError("the last try returns or raises")


@dataclass
class _Group:
    """Files that share a pack, or one file that is cut into packs of its own."""

    entries: list[Entry]
    known: list[str | None] = field(default_factory=list)
    packs: list[str] | None = None

    @property
    def bytes(self) -> int:
        return sum(entry.bytes for entry in self.entries)


class _Packing:
    """One pass over what was found."""

    def __init__(self, found: Scan, index: Index, told: Callable[[int, int], None]) -> None:
        self._scan, self._index, self._told = found, index, told
        self._read, self._to_read = 0, 0
        self._packs: dict[str, int] = {}
        self._sizes: list[int] = []
        self._sources: dict[str, tuple[Piece, ...]] = {}
        self._files: list[TreeFile] = []

    def packed(self) -> Packed:
        groups = [self._looked_up(group) for group in grouped(self._scan.files)]
        self._to_read = sum(group.bytes for group in groups if group.packs is None)
        self._told(0, self._to_read)
        for group in groups:
            self._add(group)
        for entry in self._scan.files:
            if not entry.bytes:
                self._add_file(entry, hashlib.sha256().hexdigest(), [])
        if len(self._packs) > MOST_PACKS:
            raise too_much(self._scan, f"{len(self._packs)} packs, of {MOST_PACKS}")
        tree = Tree(
            packs=[
                Pack(sha256=name, bytes=size)
                for name, size in zip(self._packs, self._sizes, strict=True)
            ],
            files=sorted(self._files, key=lambda file: file.path),
            links=[TreeLink(path=path, target=target) for path, target in self._scan.links],
            directories=self._scan.directories,
        )
        document = tree.document()
        if len(document) > TREE_BYTES:
            raise too_much(self._scan, f"{len(document)} bytes of names, of {TREE_BYTES}")
        return Packed(self._scan, tree, document, self._sources, self._read)

    def _looked_up(self, group: _Group) -> _Group:
        group.known = [self._index.hash_of(entry) for entry in group.entries]
        hashes = [known for known in group.known if known is not None]
        if len(hashes) == len(group.entries):
            group.packs = self._index.packs_of(_key(group.entries, hashes))
        return group

    def _add(self, group: _Group) -> None:
        hashes = [known or "" for known in group.known]
        if group.packs is None:
            hashes, group.packs = self._hashed(group.entries)
            self._index.keep_packs(_key(group.entries, hashes), group.packs)
        if len(group.entries) == 1 and group.bytes > SMALL_BYTES:
            self._add_large(group.entries[0], hashes[0], group.packs)
        else:
            self._add_small(group, hashes, group.packs[0])

    def _add_small(self, group: _Group, hashes: Sequence[str], name: str) -> None:
        number = self._number(name, group.bytes)
        self._sources[name] = tuple(Piece(entry.path, 0, entry.bytes) for entry in group.entries)
        offset = 0
        for entry, sha256 in zip(group.entries, hashes, strict=True):
            self._add_file(entry, sha256, [Chunk(pack=number, offset=offset, bytes=entry.bytes)])
            offset += entry.bytes

    def _add_large(self, entry: Entry, sha256: str, names: Sequence[str]) -> None:
        chunks = []
        for place, name in enumerate(names):
            start = place * PACK_BYTES
            size = min(PACK_BYTES, entry.bytes - start)
            self._sources[name] = (Piece(entry.path, start, size),)
            chunks.append(Chunk(pack=self._number(name, size), offset=0, bytes=size))
        self._add_file(entry, sha256, chunks)

    def _add_file(self, entry: Entry, sha256: str, chunks: list[Chunk]) -> None:
        self._files.append(
            TreeFile(
                path=entry.path,
                bytes=entry.bytes,
                sha256=sha256,
                executable=entry.executable,
                chunks=chunks,
            )
        )

    def _number(self, name: str, size: int) -> int:
        """The place of a pack; of two with the same contents there is one."""
        if name not in self._packs:
            self._packs[name] = len(self._packs)
            self._sizes.append(size)
        return self._packs[name]

    def _hashed(self, entries: Sequence[Entry]) -> tuple[list[str], list[str]]:
        """The hashes of the files, and of the pack or packs that they make; each is read once."""
        files, packs = [], []
        digest, size = hashlib.sha256(), 0
        for entry in entries:
            read_at, file_digest = now_ns(), hashlib.sha256()
            for block in _of_entry(self._scan.root, entry):
                file_digest.update(block)
                digest.update(block)
                size += len(block)
                self._read += len(block)
                if size == PACK_BYTES:  # blocks divide it
                    packs.append(digest.hexdigest())
                    digest, size = hashlib.sha256(), 0
                self._told(self._read, self._to_read)
            files.append(file_digest.hexdigest())
            self._index.keep(entry, files[-1], read_at)
        return files, [*packs, digest.hexdigest()] if size else packs


def grouped(entries: Sequence[Entry]) -> Iterator[_Group]:
    """Which files share a pack: it follows from their paths and sizes alone.

    A pack ends after a file whose path's hash says so. A file that comes or goes therefore changes
    its own pack, and not all that follow.
    """
    average = FILES_IN_PACK if len(entries) <= MANY_FILES else FILES_IN_PACK_OF_MANY
    group: list[Entry] = []
    size = 0
    for entry in entries:
        if entry.bytes > SMALL_BYTES:
            yield _Group([entry])
            continue
        if group and size + entry.bytes > SMALL_BYTES:
            yield _Group(group)
            group, size = [], 0
        if entry.bytes:
            group.append(entry)
            size += entry.bytes
        mark = hashlib.sha256(entry.path.encode()).digest()[:8]
        if group and int.from_bytes(mark, "big") % average == 0:
            yield _Group(group)
            group, size = [], 0
    if group:
        yield _Group(group)


def _key(entries: Sequence[Entry], hashes: Sequence[str]) -> str:
    """The name of these contents in the index."""
    sizes = ",".join(f"{entry.bytes}:{known}" for entry, known in zip(entries, hashes, strict=True))
    return hashlib.sha256(sizes.encode()).hexdigest()


def _open(root: Path, path: str) -> BinaryIO:
    """The file, and not what a link leads to.

    Raises FileChanged for one that is gone, InvalidInput for one that may not be read.
    """
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        return open(os.open(os.path.join(root, path), flags), "rb")
    except FileNotFoundError:
        raise FileChanged(path) from None
    except OSError as error:
        raise InvalidInput(
            "A file cannot be read",
            f"{root}: '{shown(path)}': {error.strerror}",
            "Make it readable, or name it in .trainyardignore",
        ) from None


def _of_entry(root: Path, entry: Entry) -> Iterator[bytes]:
    """The file's bytes, if it is what was looked at, before and after."""
    with _open(root, entry.path) as file:
        left = entry.bytes
        while Entry.of(entry.path, os.fstat(file.fileno())) == entry:
            if not left:
                return
            block = file.read(min(_BLOCK, left))
            if not block:
                break
            left -= len(block)
            yield block
        raise FileChanged(entry.path)


def _blocks(root: Path, piece: Piece) -> Iterator[bytes]:
    with _open(root, piece.path) as file:
        file.seek(piece.offset)
        left = piece.bytes
        while left:
            block = file.read(min(_BLOCK, left))
            if not block:
                raise FileChanged(piece.path)
            left -= len(block)
            yield block


def _changed_one(packed: Packed, sha256: str) -> str:
    """The first file of a pack whose contents are not what was hashed."""
    known = {file.path: file.sha256 for file in packed.tree.files}
    pieces = packed.sources[sha256]
    for piece in pieces:
        digest = hashlib.sha256()
        for block in _blocks(packed.scan.root, Piece(piece.path, 0, piece.bytes)):
            digest.update(block)
        if piece.offset or digest.hexdigest() != known.get(piece.path):
            return piece.path
    return pieces[0].path

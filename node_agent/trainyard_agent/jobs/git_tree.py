"""Makes of a commit's files a tree and packs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from trainyard_agent.host.git import Git
from trainyard_agent.host.git_wanted import Entry, GitRefused
from trainyard_contracts.trees import (
    MOST_FILES,
    MOST_PACKS,
    PACK_BYTES,
    Chunk,
    Pack,
    Tree,
    TreeFile,
    TreeLink,
    unfit,
)

# A file begins a new pack after so much, as in an upload.
SMALL_BYTES = 16 * 1024 * 1024
_LINK, _EXECUTABLE, _SUBMODULE = "120000", "100755", "160000"
# By its first words a file is known that Git LFS keeps elsewhere.
_LFS, _LFS_BYTES = b"version https://git-lfs.github.com/spec/", 1024


@dataclass
class _Packs:
    """Files' bytes, one after the other, in files that get their hash for a name."""

    directory: Path
    done: list[Pack] = field(default_factory=list)
    _stream: IO[bytes] | None = None
    _size: int = 0

    def add(self, blocks: Iterator[bytes]) -> tuple[list[Chunk], str]:
        """The file's chunks and its hash."""
        chunks: list[Chunk] = []
        whole = hashlib.sha256()
        if self._size >= SMALL_BYTES:
            self.close()
        for block in blocks:
            whole.update(block)
            view = memoryview(block)
            while view:
                if self._size == PACK_BYTES:
                    self.close()
                part = view[: PACK_BYTES - self._size]
                _grow(chunks, len(self.done), self._size, len(part))
                self._write(part)
                view = view[len(part) :]
        return chunks, whole.hexdigest()

    def _write(self, part: memoryview) -> None:
        if self._stream is None:
            self._stream = (self.directory / "open").open("wb")
            self._hashed = hashlib.sha256()
        self._stream.write(part)
        self._hashed.update(part)
        self._size += len(part)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            name = self._hashed.hexdigest()
            (self.directory / "open").rename(self.directory / name)
            self.done.append(Pack(sha256=name, bytes=self._size))
        self._stream, self._size = None, 0


def _grow(chunks: list[Chunk], pack: int, offset: int, size: int) -> None:
    if chunks and chunks[-1].pack == pack:
        offset, size = chunks[-1].offset, chunks[-1].bytes + size
        chunks.pop()
    chunks.append(Chunk(pack=pack, offset=offset, bytes=size))


@dataclass(frozen=True)
class Made:
    """A commit's files as a tree; `note` says what is not as a person may expect."""

    tree: Tree
    note: str


def make_tree(git: Git, entries: Sequence[Entry], directory: Path) -> Made:
    """Write the packs into a directory. Raises GitRefused."""
    _check_size(entries)
    packs, files, links, pointers = _Packs(directory), [], [], 0
    with git.blobs() as blobs:
        for entry in sorted(entries, key=lambda one: one.path):
            if entry.mode == _SUBMODULE:
                continue
            if entry.mode == _LINK:
                links.append((entry.path, b"".join(blobs.read(entry))))
                continue
            start = _Start()
            chunks, sha256 = packs.add(start.watch(blobs.read(entry)))
            pointers += entry.size < _LFS_BYTES and start.seen.startswith(_LFS)
            files.append((entry, sha256, chunks))
    packs.close()
    try:
        tree = Tree(
            packs=packs.done,
            files=[
                TreeFile(
                    path=entry.path,
                    bytes=entry.size,
                    sha256=sha256,
                    executable=entry.mode == _EXECUTABLE,
                    chunks=chunks,
                )
                for entry, sha256, chunks in files
            ],
            links=[TreeLink(path=path, target=target.decode()) for path, target in links],
        )
    except ValueError as error:
        raise GitRefused(f"the repository has a name that no node takes: {error}") from None
    if wrong := unfit(tree):
        raise GitRefused(f"{wrong}; change it in the repository, or name a directory in path")
    return Made(tree, _note(entries, pointers))


@dataclass
class _Start:
    """Remembers how a content begins."""

    seen: bytes = b""

    def watch(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        for block in blocks:
            self.seen = self.seen or block[: len(_LFS)]
            yield block


def _check_size(entries: Sequence[Entry]) -> None:
    total, most = sum(entry.size for entry in entries), MOST_PACKS * SMALL_BYTES
    if len(entries) > MOST_FILES or total > most:
        raise GitRefused(
            f"the commit has {len(entries)} files of {total / 1e9:.1f} GB; at most {MOST_FILES} of "
            f"{most / 1e9:.1f} GB go along: name a directory in job.git.path, or put data elsewhere"
        )
    if not any(entry.mode != _SUBMODULE for entry in entries):
        raise GitRefused("the commit has no files there; correct job.git")


def _note(entries: Sequence[Entry], pointers: int) -> str:
    modules = [entry.path for entry in entries if entry.mode == _SUBMODULE]
    told = []
    if modules:
        told.append(f"submodules are not fetched: {', '.join(modules[:5])[:200]}")
    if pointers:
        files = "1 file is a pointer" if pointers == 1 else f"{pointers} files are pointers"
        told.append(f"{files} of Git LFS, whose contents are not fetched")
    return "; ".join(told)

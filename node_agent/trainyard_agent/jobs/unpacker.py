"""Unpacks one upload: its tree and its packs become a directory."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

from trainyard_agent.host.atomic_file import replace_file
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.http_errors import Refused
from trainyard_agent.host.locations import Location
from trainyard_agent.host.patience import patiently
from trainyard_agent.host.s3 import S3
from trainyard_agent.jobs import work
from trainyard_agent.jobs.attempt_files import BadBundle
from trainyard_agent.jobs.unpack_state import State, Torn
from trainyard_contracts import places
from trainyard_contracts.job_bundle import JobBundle
from trainyard_contracts.trees import TREE_BYTES, Chunk, Tree, TreeFile, unfit

T = TypeVar("T")

R = TypeVar("R")

AT_ONCE = 8
_TRIES = 4
_BLOCK = 1024 * 1024


@dataclass(frozen=True)
class Unpacker:
    """One upload; all of it runs in threads."""

    s3: S3
    at: Location
    root: Path
    bundle: JobBundle
    state: State
    #: The field of the spec that names the upload.
    what: str = "job.workdir"

    @property
    def stage(self) -> Path:
        """Beside the working directory, and the same after a restart."""
        return self.root / f"{work.UNPACKING}{self._tree_id[:16]}"

    @property
    def _tree_id(self) -> str:
        assert self.bundle.code is not None
        return self.bundle.code.tree

    def run(self) -> None:
        """Raises CommandRefused, BadBundle, OSError."""
        top = self.stage / places.WORK
        top.mkdir(parents=True, exist_ok=True)
        (self.stage / "packs").mkdir(exist_ok=True)
        document = self._document()
        tree = self._parsed(document)
        self.state.begin(sum({pack.sha256: pack.bytes for pack in tree.packs}.values()))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                self._fill(pool, top, tree)
            except Torn as torn:
                # The machine may have gone down before it wrote them: once more from their packs.
                self._forget(tree, torn)
                self._filled_now(pool, top, tree)
        self._dress(top, tree)
        self._move(top, document)

    def _document(self) -> bytes:
        path = self._packed(self._tree_id, TREE_BYTES)
        return path.read_bytes()

    def _parsed(self, document: bytes) -> Tree:
        try:
            tree = Tree.model_validate_json(document)
        except ValueError as error:
            raise BadBundle(f"{self.what}: the tree is malformed: {str(error)[:300]}") from error
        if wrong := unfit(tree):
            raise BadBundle(f"{self.what}: {wrong}")
        leaves = {file.path for file in tree.files} | {link.path for link in tree.links}
        for name in self.bundle.files:
            parts = name.split("/")
            above = ("/".join(parts[:end]) for end in range(1, len(parts)))
            if found := next((parent for parent in above if parent in leaves), None):
                raise BadBundle(
                    f"job.files: '{name}' cannot be written: "
                    f"'{found}' of job.workdir is no directory"
                )
        return tree

    # -- bytes ------------------------------------------------------------------------------------
    def _fill(self, pool: ThreadPoolExecutor, top: Path, tree: Tree) -> None:
        """All bytes of all files, and nothing else. Raises Torn."""
        directories = {str(Path(file.path).parent) for file in tree.files} | {*tree.directories}
        directories |= {str(Path(link.path).parent) for link in tree.links}
        for name in sorted(directories):
            (top / name).mkdir(parents=True, exist_ok=True)
        chunks: dict[str, list[tuple[str, int, Chunk]]] = {}
        sizes = {pack.sha256: pack.bytes for pack in tree.packs}
        for file in tree.files:
            start = 0
            for chunk in file.chunks:
                sha256 = tree.packs[chunk.pack].sha256
                chunks.setdefault(sha256, []).append((file.path, start, chunk))
                start += chunk.bytes
            if not file.chunks:
                (top / file.path).touch()

        _each(
            pool, lambda sha256: self._scatter(top, sha256, sizes[sha256], chunks[sha256]), chunks
        )
        torn = _each(pool, lambda file: self._torn(top, file), tree.files)
        if wrong := [file for file, is_torn in zip(tree.files, torn, strict=True) if is_torn]:
            raise Torn(wrong)

    def _filled_now(self, pool: ThreadPoolExecutor, top: Path, tree: Tree) -> None:
        try:
            self._fill(pool, top, tree)
        except Torn as torn:
            raise BadBundle(
                f"{self.what}: '{torn.files[0].path}' is not what its tree says, though every "
                "pack is; pack the directory again"
            ) from torn

    def _scatter(
        self, top: Path, sha256: str, size: int, chunks: Sequence[tuple[str, int, Chunk]]
    ) -> None:
        """Write a pack's bytes where they belong, and note that this is done."""
        if not self._mark(sha256).exists():
            packed = self._packed(sha256, size)
            with packed.open("rb") as source:
                for name, start, chunk in chunks:
                    self.state.check()
                    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                    with os.fdopen(os.open(top / name, flags, 0o644), "wb") as target:
                        source.seek(chunk.offset)
                        target.seek(start)
                        _copy(source, target, chunk.bytes)
            self._mark(sha256).touch()
            packed.unlink()
        self.state.note(sha256, size)

    def _packed(self, sha256: str, most: int) -> Path:
        """The object of this hash as a file of its own. Raises CommandRefused."""
        path = self.stage / "packs" / sha256
        if not (path.exists() and _sha256(path, self.state) == sha256):
            with path.open("w+b") as stream:
                there = self._patiently(lambda: self.s3.get_file(self.at.under(sha256), stream))
            if not there or path.stat().st_size > most or _sha256(path, self.state) != sha256:
                path.unlink()
                raise CommandRefused(
                    "code-changed",
                    f"s3://{self.at.bucket}/{self.at.key}/{sha256} "
                    f"{'was changed' if there else 'is not there'} after Trainyard wrote it",
                )
        return path

    def _patiently(self, call: Callable[[], T]) -> T:
        return patiently(call, self.state, self._refused, _TRIES)

    def _refused(self, error: Refused) -> CommandRefused:
        words = f"S3 refuses {self.what} below {self.at.key}: {error}"
        return CommandRefused("bundle-refused", words)

    def _torn(self, top: Path, file: TreeFile) -> bool:
        path = top / file.path
        try:
            return path.stat().st_size != file.bytes or _sha256(path, self.state) != file.sha256
        except FileNotFoundError:
            return True

    def _forget(self, tree: Tree, torn: Torn) -> None:
        for file in torn.files:
            (self.stage / places.WORK / file.path).unlink(missing_ok=True)
            for chunk in file.chunks:
                self._mark(tree.packs[chunk.pack].sha256).unlink(missing_ok=True)

    def _mark(self, sha256: str) -> Path:
        return self.stage / "packs" / f"{sha256}.done"

    # -- all the rest -----------------------------------------------------------------------------
    def _dress(self, top: Path, tree: Tree) -> None:
        """Modes, times, links, and the bundle's own files, which replace those of the tree."""
        for file in tree.files:
            path = top / file.path
            path.chmod(0o755 if file.executable else 0o644)
            os.utime(path, (work.UNPACKED_AT, work.UNPACKED_AT))
        for link in tree.links:
            # A file of the bundle may be in its place, since a start before.
            if not os.path.lexists(top / link.path):
                (top / link.path).symlink_to(link.target)
        for name, text in self.bundle.files.items():
            path = top / name
            if path.is_dir() and not path.is_symlink():
                raise BadBundle(f"job.files: '{name}' is a directory in job.workdir")
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, text.encode())

    def _move(self, top: Path, document: bytes) -> None:
        sync(top)  # what the rename makes visible must not be lost when the machine goes down
        replace_file(self.root / places.TREE, document)
        if not os.path.lexists(work.work_dir(self.root)):
            top.rename(work.work_dir(self.root))
        shutil.rmtree(self.stage, ignore_errors=True)


def _each(pool: ThreadPoolExecutor, call: Callable[[T], R], things: Iterable[T]) -> list[R]:
    """The first that fails ends the others that have not begun."""
    futures = [pool.submit(call, thing) for thing in things]
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        raise


def sync(directory: Path) -> None:
    """Write to the disk what this file system alone still holds in memory: syncfs(2).

    Python has no call for it. One fsync for each of 200,000 files would take minutes.
    """
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if library.syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), "syncfs failed", str(directory))
    finally:
        os.close(descriptor)


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    while size > 0:
        block = source.read(min(_BLOCK, size))
        if not block:
            return  # the file's hash will say so
        target.write(block)
        size -= len(block)


def _sha256(path: Path, state: State) -> str:
    hashed = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            state.check()
            hashed.update(block)
    return hashed.hexdigest()

"""Copies the objects below a prefix of a bucket: all of them, as they were listed, or none.

They are listed once and fetched beside their place. After a kill at any line the next copy goes on
with what is there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from trainyard_agent.host.atomic_file import replace_file
from trainyard_agent.host.boot import boot_id
from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.listings import Listed
from trainyard_agent.host.locations import Location
from trainyard_agent.host.patience import patiently
from trainyard_agent.host.s3 import S3
from trainyard_agent.jobs.copy_file import Into, md5_of
from trainyard_agent.jobs.copy_list import (
    DIGEST,
    Listing,
    Piece,
    done_pieces,
    lines_of,
    read_listing,
)
from trainyard_agent.jobs.copy_progress import Changed, Progress
from trainyard_contracts.amounts import size
from trainyard_contracts.commands import INPUT_REFUSED
from trainyard_contracts.inputs import S3Prefix
from trainyard_contracts.trees import tree_path

T = TypeVar("T")
#: `map`, of the pool or Python's own.
Each = Callable[..., Iterator[bytes]]

AT_ONCE = 16
#: Of an object whose parts S3 does not tell, so much is fetched by one request.
PIECE_BYTES = 64 * 1024 * 1024
#: So much of the filesystem stays free for the program.
SPARE_BYTES = 1024**3
_TRIES = 6
_PRECONDITION_FAILED, _FORBIDDEN = 412, 403


@dataclass(frozen=True)
class Copy:
    """One prefix, copied to `whole` of `stage`; all of it runs in threads.

    `what` is the field of the spec, for a person.
    """

    s3: S3
    source: S3Prefix
    stage: Path
    what: str
    progress: Progress

    @property
    def whole(self) -> Path:
        return self.stage / "whole"

    @property
    def _parts(self) -> Path:
        return self.stage / "parts"

    @property
    def _list(self) -> Path:
        return self.stage / "listing"

    def run(self) -> Listing:
        """Raises CommandRefused, OSError."""
        self._begin()
        if not self._list.exists():
            self.list_to(self._list)
        listing = read_listing(self._list)
        self.progress.expect(listing.bytes)
        try:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                self._check_room(listing)
                self._bring_all(pool)
        except Changed as changed:
            # What was listed is nowhere any more: the next copy begins with a new listing.
            shutil.rmtree(self.stage, ignore_errors=True)
            raise self._refused(
                f"'{changed}' was changed while it was copied; go on when nobody writes there"
            ) from None
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as clash:
            raise self._refused(
                f"one object is a file and the directory of another one: {clash.filename}"
            ) from clash
        return listing

    def list_to(self, path: Path) -> Listing:
        """Write a line for each object, in S3's order. Raises CommandRefused."""
        part = path.with_name(f"{path.name}.part")
        with part.open("w", encoding="utf-8") as lines:
            for one in self._objects():
                name = self._name(one)
                if name:
                    lines.write(json.dumps([name, one.bytes, one.etag]) + "\n")
        found = read_listing(part)
        if not found.objects:
            raise self._refused("there is no object below it")
        part.replace(path)
        return found

    def _begin(self) -> None:
        """What was fetched before the machine went down may be torn: it is fetched again."""
        boot = self.stage / "boot"
        if self.stage.exists() and (not boot.exists() or boot.read_text() != boot_id()):
            shutil.rmtree(self.stage)
        for directory in (self.whole, self._parts):
            directory.mkdir(parents=True, exist_ok=True)
        replace_file(boot, boot_id().encode())

    def _objects(self) -> Iterator[Listed]:
        token = ""
        while True:
            asked = partial(self.s3.list_page, self.source.bucket, self.source.prefix, token)
            page = self._patiently(asked)
            if page is None:
                raise self._refused("there is no such bucket")
            found, token = page
            yield from found
            if not token:
                return

    def _name(self, one: Listed) -> str:
        """Of the file; '' for what consoles write where a directory is to be seen."""
        name = one.key[len(self.source.prefix) :]
        if name.endswith("/") or not name:
            if one.bytes:
                raise self._refused(f"'{one.key[:200]}' ends with '/', and cannot be a file")
            return ""
        try:
            return tree_path(name)
        except ValueError as error:
            raise self._refused(f"'{one.key[:200]}' cannot be a file: it {error}") from None

    def _check_room(self, listing: Listing) -> None:
        there = sum(path.stat().st_blocks * 512 for path in _all_files(self.stage))
        left = shutil.disk_usage(self.stage).free - SPARE_BYTES
        if listing.bytes - there > left:
            raise self._refused(
                f"it has {size(listing.bytes)}, and the shared filesystem has room for "
                f"{size(max(0, left))}; make room there, or mount the bucket (mode mount)"
            )

    # -- bytes ------------------------------------------------------------------------------------
    def _bring_all(self, pool: ThreadPoolExecutor) -> None:
        under_way: deque[Future[None]] = deque()
        try:
            for number, one in enumerate(lines_of(self._list)):
                self.progress.check()
                if one.bytes > PIECE_BYTES and "-" in one.etag:
                    _end(under_way)
                    self._bring(number, one, pool.map)  # its parts at once
                else:
                    under_way.append(pool.submit(self._bring, number, one, map))
                    if len(under_way) > 4 * AT_ONCE:
                        under_way.popleft().result()
            _end(under_way)
        finally:
            for future in under_way:
                future.cancel()

    def _bring(self, number: int, one: Listed, each: Each) -> None:
        if not self._there(one):
            self._fetch(number, one, each)

    def _there(self, one: Listed) -> bool:
        """It was fetched before; a file has its name only when it is whole."""
        try:
            there = (self.whole / one.key).stat().st_size == one.bytes
        except (FileNotFoundError, NotADirectoryError):
            return False
        if there:
            self.progress.add(one.bytes)
        return there

    def _fetch(self, number: int, one: Listed, each: Each) -> None:
        """All pieces, compared with the ETag, then in their place by one rename."""
        part, done = self._parts / str(number), self._parts / f"{number}.done"
        pieces, exact = self._pieces(one)
        known = done_pieces(done)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)

        def fetch(piece: Piece) -> bytes:
            digest = known.get(piece.start) or self._piece(one, piece, descriptor)
            if piece.start not in known and len(pieces) > 1:
                with done.open("a") as lines:
                    lines.write(f"{piece.start} {digest.hex()}\n")
            self.progress.add(piece.bytes)
            return digest

        try:
            digests = list(each(fetch, pieces))
            os.ftruncate(descriptor, one.bytes)
        finally:
            os.close(descriptor)
        if exact and not self._same(one, digests):
            done.unlink(missing_ok=True)
            part.unlink()
            raise CommandRefused(
                "unreachable",
                f"{self.what}: '{one.key[:200]}' arrived with other bytes than its ETag says; "
                "the same command again is safe",
            )
        target = self.whole / one.key
        target.parent.mkdir(parents=True, exist_ok=True)
        part.replace(target)
        done.unlink(missing_ok=True)

    def _pieces(self, one: Listed) -> tuple[Sequence[Piece], bool]:
        """How it is fetched, and whether the ETag can be made of these pieces.

        An ETag is the MD5 of the object, or of the MD5s of its parts with their number.
        """
        match = DIGEST.fullmatch(one.etag)
        if not one.bytes:
            return [], False
        if match is not None and match[2] is None:
            return [Piece(0, one.bytes)], True
        step = self._part_bytes(one, int(match[2])) if match is not None else 0
        starts = range(0, one.bytes, step or PIECE_BYTES)
        pieces = [Piece(at, min(step or PIECE_BYTES, one.bytes - at)) for at in starts]
        return pieces, step > 0

    def _part_bytes(self, one: Listed, count: int) -> int:
        """Of each of its parts but the last; 0 where they differ, or nobody tells."""
        at = self._at(one)
        first = self._patiently(lambda: self.s3.part_bytes(at, 1)) or 0
        last = self._patiently(lambda: self.s3.part_bytes(at, count)) or 0
        return first if first and last == one.bytes - first * (count - 1) > 0 else 0

    def _piece(self, one: Listed, piece: Piece, descriptor: int) -> bytes:
        into = Into(descriptor, piece.start, self.progress)

        def call() -> bytes:
            if not self._range(one, piece, into):
                raise Changed(one.key)
            if into.written != piece.bytes:
                raise Unreachable(f"{into.written} of {piece.bytes} bytes arrived")
            return into.digest

        return self._patiently(call)

    def _range(self, one: Listed, piece: Piece, into: Into) -> bool:
        """Whether the object is there as it was listed."""
        try:
            return self.s3.get_range(self._at(one), one.etag, piece.start, piece.bytes, into)
        except Refused as refused:
            if refused.status == _PRECONDITION_FAILED:
                return False
            raise

    def _same(self, one: Listed, digests: Sequence[bytes]) -> bool:
        """With a KMS key the ETag is no MD5: then size and ETag of each answer have to do."""
        match = DIGEST.fullmatch(one.etag)
        assert match is not None
        whole = digests[0] if match[2] is None else md5_of(b"".join(digests)).digest()
        if whole.hex() == match[1]:
            return True
        kind = self._patiently(lambda: self.s3.encryption(self._at(one)))
        return kind not in ("", "AES256")

    def _at(self, one: Listed) -> Location:
        return Location(self.source.bucket, f"{self.source.prefix}{one.key}")

    def _patiently(self, call: Callable[[], T]) -> T:
        def refused(error: Refused) -> CommandRefused:
            return self._refused(_reason(error))

        return patiently(call, self.progress, refused, _TRIES)

    def _refused(self, words: str) -> CommandRefused:
        return CommandRefused(INPUT_REFUSED, f"{self.what}: {self.source}: {words}")


def _reason(error: Refused) -> str:
    if error.status == _FORBIDDEN:
        return (
            "the nodes' role may not read it; the bucket's own policy must allow it, and no KMS "
            f"key of your own may encrypt the objects. S3 says: {error}"
        )
    return f"S3 refuses it: {error}"


def _end(under_way: deque[Future[None]]) -> None:
    while under_way:
        under_way.popleft().result()


def _all_files(directory: Path) -> Iterator[Path]:
    for here, _, names in os.walk(directory):
        for name in names:
            yield Path(here, name)

"""Brings a run's results down: each object is verified, and nothing that is there is lost.

It can be killed at any moment. What arrived stays in a file of its own, and the rest follows there.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

import httpx

from .client import Client, Json
from .problems import InvalidInput, SdkError, Unreachable
from .progress import Counted, Told
from .terminal_text import plain

AT_ONCE = 8
#: Of one object, with a pause before each that doubles.
TRIES = 5
PAUSE_SECONDS = 0.5
_BLOCK = 1024 * 1024


class _Again(Exception):
    """It did not get through; the words say why."""


class _Expired(_Again):
    """The URL is no longer good; another one is asked for."""


@dataclass
class Result:
    """What became of the objects, by their keys."""

    fetched: list[str] = field(default_factory=list)
    there: list[str] = field(default_factory=list)
    #: Another file is in the place; it was not touched.
    kept: list[str] = field(default_factory=list)
    #: Of what was fetched.
    bytes: int = 0
    #: Of those, the agent's copies of checkpoints.
    watched_bytes: int = 0
    #: It was copied while the run trained, and is not the verified export.
    synced: bool = False
    synced_at: str | None = None

    def listed(self, page: Json) -> None:
        """A page of the list says what it is of."""
        if page.get("source") == "sync":
            self.synced, self.synced_at = True, page.get("syncedAt") or self.synced_at

    def fetch(self, key: str, size: int) -> None:
        """This object was fetched now."""
        self.fetched.append(key)
        self.bytes += size
        if key.startswith("watched/"):
            self.watched_bytes += size


def selected(key: str, pattern: str | None) -> bool:
    """Whether the pattern names the object: by its whole key, its last name, or a directory above
    it.
    """
    if pattern is None:
        return True
    if "/" not in pattern and fnmatchcase(key.rpartition("/")[2], pattern):
        return True
    return fnmatchcase(key, pattern) or key.startswith(pattern.rstrip("/") + "/")


def download(
    client: Client,
    run: str,
    *,
    pattern: str | None,
    to: Path,
    force: bool,
    told: Told,
    stop: threading.Event | None = None,
) -> Result:
    """Raises SdkError, InvalidInput, Unreachable; what came down before that stays.

    Who sets `stop` has it end soon, with what came down until then.
    """
    return _Download(client, run, to, force, told, stop or threading.Event()).run(pattern)


class _Page:
    """One page of the list, which can be asked for again when its URLs are no longer good."""

    def __init__(self, client: Client, run: str, token: str | None, page: Json) -> None:
        self._client, self._run, self._token = client, run, token
        self._lock = threading.Lock()
        self._urls = {found["key"]: found.get("url") for found in page["outputs"]}

    def url(self, key: str, expired: str | None = None) -> str | None:
        """The object's URL, another one than `expired`."""
        with self._lock:
            if expired is not None and self._urls.get(key) == expired:
                page = self._client.output_page(self._run, self._token)
                self._urls = {found["key"]: found.get("url") for found in page["outputs"]}
            return self._urls.get(key)


@dataclass(frozen=True)
class _Object:
    key: str
    bytes: int
    sha256: str
    page: _Page


class _Download:
    def __init__(
        self,
        client: Client,
        run: str,
        to: Path,
        force: bool,
        told: Told,
        stop: threading.Event,
    ) -> None:
        self._client, self._run, self._to, self._force = client, run, to, force
        self._root = os.path.realpath(to)
        self._counted = Counted(told)
        self._stop = stop
        self._lock = threading.Lock()
        self._result = Result()
        local = client.connection.local is not None
        self._http = httpx.Client(
            timeout=httpx.Timeout(60.0, connect=10.0), verify=not local, trust_env=not local
        )

    def run(self, pattern: str | None) -> Result:
        wanted = (found for found in self._listed() if selected(found.key, pattern))
        pool = ThreadPoolExecutor(max_workers=AT_ONCE)
        doing: set[Future[None]] = set()
        try:
            with self._http:
                for found in wanted:
                    if self._stop.is_set():
                        break
                    doing = self._started(doing, pool, found)
                while doing:
                    doing = _first_done(doing)
        finally:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
        return self._result

    def _started(
        self, doing: set[Future[None]], pool: ThreadPoolExecutor, found: _Object
    ) -> set[Future[None]]:
        """Few are begun ahead: a list of 100,000 is not held, and URLs stay young."""
        if len(doing) >= 2 * AT_ONCE:
            doing = _first_done(doing)
        self._counted.expect(found.bytes)
        return {*doing, pool.submit(self._bring, found, self._place(found.key))}

    def _listed(self) -> Iterator[_Object]:
        token = None
        for document in self._client.outputs(self._run, urls=True):
            self._result.listed(document)
            page = _Page(self._client, self._run, token, document)
            for found in document["outputs"]:
                yield _Object(found["key"], int(found["bytes"]), found["sha256"], page)
            token = document.get("nextToken")

    def _place(self, key: str) -> Path:
        """Where the object goes. Raises InvalidInput for a key that leads out of the directory."""
        parts = key.split("/")
        out = any(part in ("", ".", "..") for part in parts) or "\0" in key
        place = Path(self._root, *parts) if not out else Path()
        real = os.path.realpath(place.parent)
        if out or (real != self._root and not real.startswith(self._root.rstrip("/") + "/")):
            raise InvalidInput(
                "An object would be written outside of the directory",
                f"'{plain(key)}' leads out of {self._to}",
                "Name another directory with --to; get such an object with the AWS CLI",
            )
        return place

    def _bring(self, found: _Object, place: Path) -> None:
        if self._stop.is_set():
            return
        try:
            self._bring_or_keep(found, place)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise SdkError(
                    "The disk is full",
                    f"{place} has {found.bytes} bytes",
                    "Make room and do the same again: only the rest is sent",
                ) from error
            raise SdkError(
                "A file cannot be written",
                f"{place}: {error.strerror or error}",
                "Name another directory with --to",
            ) from error

    def _bring_or_keep(self, found: _Object, place: Path) -> None:
        if place.is_symlink() or place.exists():
            if _same(place, found):
                self._note(found, lambda: self._result.there.append(found.key))
                return
            if not self._force:
                self._note(found, lambda: self._result.kept.append(found.key))
                return
            if place.is_dir() and not place.is_symlink():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        place.parent.mkdir(parents=True, exist_ok=True)
        mark = hashlib.sha256(f"{found.key}\n{found.sha256}".encode()).hexdigest()[:32]
        part = place.with_name(f".{mark}.part")
        with open(part, "ab+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SdkError(
                    "Another download writes the same file", str(place), "Wait until it has ended"
                ) from None
            self._fill(file, found)
            if self._stop.is_set():
                return
            os.replace(part, place)
        self._note(found, lambda: self._result.fetch(found.key, found.bytes))

    def _note(self, found: _Object, note: Callable[[], None]) -> None:
        with self._lock:
            note()
        self._counted.at(found.key, found.bytes)

    def _fill(self, file: BinaryIO, found: _Object) -> None:
        """Go on where the file ends, until it is the object."""
        url = found.page.url(found.key)
        wrong = "the API gives no URL for it"
        for attempt in range(1, TRIES + 1):
            if self._stop.is_set():
                return
            try:
                if url is not None:
                    self._read_on(file, found, url)
                    return
            except _Expired as expired:
                wrong, url = str(expired), found.page.url(found.key, url)
            except (_Again, httpx.TransportError) as error:
                wrong = str(error) or type(error).__name__
            if attempt < TRIES:
                self._stop.wait(PAUSE_SECONDS * 2.0**attempt * random.uniform(0.5, 1.0))
        raise Unreachable(
            "An object does not get through",
            f"'{plain(found.key)}', {TRIES} times: {wrong}",
            "Do the same again: what is down stays there, and only the rest is sent",
        )

    def _read_on(self, file: BinaryIO, found: _Object, url: str) -> None:
        digest, size = _digest_of(file)
        if size > found.bytes:
            digest, size = _emptied(file)
        if size < found.bytes:
            headers = {"range": f"bytes={size}-"} if size else {}
            with self._http.stream("GET", url, headers=headers) as answer:
                _check(answer, partial=bool(size))
                for block in answer.iter_raw():  # what it would gather to blocks is lost at a cut
                    if self._stop.is_set():
                        return
                    file.write(block)
                    digest.update(block)
                    size += len(block)
                    self._counted.at(found.key, size)
            file.flush()
        if size == found.bytes and digest.hexdigest() == found.sha256:
            os.fsync(file.fileno())
            return
        whole = size >= found.bytes
        if whole:
            _emptied(file)
        raise _Again("its SHA-256 is not that of the list" if whole else f"cut at byte {size}")


def _first_done(doing: set[Future[None]]) -> set[Future[None]]:
    """Those that go on; raises what one that ended raised."""
    done, rest = wait(doing, return_when=FIRST_COMPLETED)
    for future in done:
        future.result()
    return rest


def _check(answer: httpx.Response, *, partial: bool) -> None:
    if answer.status_code == (206 if partial else 200):
        return
    answer.read()
    words = f"HTTP status {answer.status_code}"
    if answer.status_code == 403:
        raise _Expired(words)
    raise _Again(words)


def _emptied(file: BinaryIO) -> tuple[hashlib._Hash, int]:
    file.truncate(0)
    return hashlib.sha256(), 0


def _digest_of(file: BinaryIO) -> tuple[hashlib._Hash, int]:
    """The hash of what is there already; then the file is at its end."""
    file.seek(0)
    digest, size = hashlib.sha256(), 0
    for block in _blocks(file):
        digest.update(block)
        size += len(block)
    return digest, size


def _blocks(file: BinaryIO) -> Iterable[bytes]:
    return iter(lambda: file.read(_BLOCK), b"")


def _same(place: Path, found: _Object) -> bool:
    if place.is_symlink() or not place.is_file() or place.stat().st_size != found.bytes:
        return False
    with open(place, "rb") as file:
        return _digest_of(file)[0].hexdigest() == found.sha256

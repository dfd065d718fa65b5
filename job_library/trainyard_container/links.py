"""What the programs of a job's hosts say to each other: through the courier of the first host, or
to themselves where there is one host only.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import socket
import threading
import time
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from trainyard_job.ranks.courier import Address, Courier

from .courier_server import CourierServer, Notes
from .surroundings import Surroundings, Unfit

#: A host's own name may resolve late.
RESOLVE_SECONDS = 600.0
_PAUSE_SECONDS = 0.5


class Link(Protocol):
    """Words by name; the last one counts."""

    def note(self, name: str, value: Any) -> None:
        """Raises OSError."""

    def read(self, name: str, wait: float = 0.0) -> Any:
        """None until somebody said it. Raises OSError."""

    def lost(self) -> list[str]:
        """Hosts whose program is gone, as far as this one sees it."""


class First:
    """On the first host."""

    def __init__(self, server: CourierServer | None = None) -> None:
        self._server = server
        self._notes = server.notes if server is not None else Notes()

    def note(self, name: str, value: Any) -> None:
        self._notes.note(name, value)

    def read(self, name: str, wait: float = 0.0) -> Any:
        return self._notes.read(name, wait)

    def lost(self) -> list[str]:
        return sorted(self._server.gone) if self._server is not None else []


class Other:
    """On any other host. It hears of the first one's end by the end of the connection."""

    def __init__(self, courier: Courier, host: str, first: str) -> None:
        self._courier, self._first = courier, first
        self._gone = False
        courier.ask({"do": "host", "name": host})

    def note(self, name: str, value: Any) -> None:
        self._ask({"do": "note", "name": name, "value": value})

    def read(self, name: str, wait: float = 0.0) -> Any:
        return self._ask({"do": "read", "name": name, "wait": wait})["value"]

    def lost(self) -> list[str]:
        return [self._first] if self._gone else []

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._courier.ask(question)
        except OSError:
            self._gone = True
            raise


def courier_key(key: bytes, where: Surroundings) -> bytes:
    """The attempt's own, from the cluster's: who has it can do nothing else with it."""
    said = f"trainyard.courier-key.v1\n{where.run_id}\n{where.attempt}"
    return hmac.new(key, said.encode(), sha256).digest()


def write_key(key: bytes, path: Path) -> Path:
    """Where the ranks find it: a file that only the job's user reads."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(key.hex())
    return path


def connect(where: Surroundings, key: bytes) -> Link:
    """Raises Unfit, OSError."""
    if len(where.hosts) == 1:
        return First()
    if where.is_first:
        address = own_address(where.host)
        return First(CourierServer(where.run_dir, key).start(address, where.courier_port))
    courier = Courier(Address(where.hosts[0], where.courier_port, key))
    return Other(courier, where.host, where.hosts[0])


def own_address(host: str, seconds: float = RESOLVE_SECONDS) -> str:
    """By which the others reach this host. Raises Unfit."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            return socket.gethostbyname(host)
        if time.monotonic() > deadline:
            raise Unfit(f"{host}: this host's own name does not resolve within {seconds:.0f} s")
        time.sleep(_PAUSE_SECONDS)


class Watch:
    """Waits in a thread for a word, so that nobody else has to: `word` is set once it is said, or
    once the other end is gone.
    """

    def __init__(self, link: Link, name: str) -> None:
        self.word = threading.Event()
        self._link, self._name = link, name
        threading.Thread(target=self._run, daemon=True, name=f"watch {name}").start()

    def _run(self) -> None:
        while not self.word.is_set():
            try:
                if self._link.read(self._name, wait=1.0) is not None:
                    self.word.set()
            except OSError:
                self.word.set()

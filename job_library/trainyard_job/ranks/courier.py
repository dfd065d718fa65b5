"""The way of a rank to the courier of its job's first host, where the hosts of a job share no
filesystem: its lines in the meeting of ranks, and its files of a checkpoint.

`trainyard_container` runs the courier and sets the variables below; elsewhere there is none.
"""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from ..common.exits import ConfigError
from . import wire
from .board import Carrier, Take

#: `HOST:PORT` of the courier; without it all ranks share the run's directory.
ADDRESS = "TRAINYARD_COURIER"
#: The file with the attempt's own key, which only the job's user can read.
KEY_FILE = "TRAINYARD_COURIER_KEY_FILE"
#: On every host but the first: this host's name.
CARRIES = "TRAINYARD_COURIER_CARRIES"

#: Hosts start at different times, and their names may resolve late.
CONNECT_SECONDS = 600.0
_PAUSE_SECONDS = 0.5
#: So long the courier keeps a question for a line that is not there yet.
_HEAR_SECONDS = 0.5
_BLOCK = 1 << 20
#: Seconds: a peer whose machine is gone counts as gone after about a minute.
_KEEPALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 4}


@dataclass(frozen=True)
class Address:
    """Where the courier is, and what opens it."""

    host: str
    port: int
    key: bytes

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Address | None:
        """Raises ConfigError."""
        text = environment.get(ADDRESS, "")
        if not text:
            return None
        host, _, port = text.rpartition(":")
        if not host or not port.isdigit():
            raise ConfigError(f"{ADDRESS}: '{text}' is no HOST:PORT; unset it or give one")
        file = Path(environment.get(KEY_FILE, ""))
        try:
            return cls(host, int(port), bytes.fromhex(file.read_text().strip()))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{KEY_FILE}: '{file}' holds no key in hex: {error}") from None


class Courier:
    """A connection to the courier, made when it is first needed; for one process."""

    def __init__(self, address: Address, *, connect_seconds: float = CONNECT_SECONDS) -> None:
        self._address, self._patience = address, connect_seconds
        self._lock = threading.RLock()
        self._wire: wire.Wire | None = None
        self._broken: str | None = None
        # A child that the program forks would keep the connection open after this process's end.
        os.register_at_fork(after_in_child=self._forget)

    def ask(self, document: wire.Document) -> wire.Document:
        """Raises OSError, ever again once the connection broke: nobody knows what arrived."""
        with self._lock:
            return self._guarded(lambda to: self._asked(to, document))

    def put(self, source: Path, relative: str) -> None:
        """Send a file. Raises OSError: the courier has none of it, or all."""
        with self._lock:
            self._guarded(lambda to: self._sent(to, source, relative))

    def close(self) -> None:
        with self._lock:
            if self._wire is not None:
                self._wire.close()
            self._wire, self._broken = None, "it was closed"

    def _guarded(self, work: Any) -> wire.Document:
        if self._broken is not None:
            raise ConnectionError(f"the courier on {self._address.host}: {self._broken}")
        try:
            if self._wire is None:
                self._wire = self._connected()
            said = cast(wire.Document, work(self._wire))
        except (OSError, ValueError) as error:
            self._broken = str(error) or type(error).__name__
            if self._wire is not None:
                self._wire.close()
            raise ConnectionError(
                f"the courier on {self._address.host} cannot be reached: {self._broken}"
            ) from error
        if "failed" in said:
            raise OSError(f"the courier on {self._address.host}: {said['failed']}")
        return said

    @staticmethod
    def _asked(to: wire.Wire, document: wire.Document) -> wire.Document:
        to.send(document)
        return to.receive()

    @staticmethod
    def _sent(to: wire.Wire, source: Path, relative: str) -> wire.Document:
        hashed, size = sha256(), source.stat().st_size
        with open(source, "rb") as stream:
            while block := stream.read(_BLOCK):
                hashed.update(block)
            stream.seek(0)
            said = {"do": "put", "path": relative, "bytes": size, "sha256": hashed.hexdigest()}
            to.send(said)
            left = size
            while left and (block := stream.read(min(_BLOCK, left))):
                to.send_bytes(block)
                left -= len(block)
        if left:
            raise ConnectionError(f"{source} became shorter while it was sent")
        return to.receive()

    def _connected(self) -> wire.Wire:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return self._connect()
            except wire.NotOurs:
                raise
            except OSError:  # the name does not resolve yet, or nobody listens yet
                if time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def _connect(self) -> wire.Wire:
        address = (self._address.host, self._address.port)
        connection = socket.create_connection(address, timeout=10)
        try:
            keep_alive(connection)
            made = wire.call(connection, self._address.key)
        except BaseException:
            connection.close()
            raise
        connection.settimeout(None)  # a large file takes its time, and keepalive sees the dead
        return made

    def _forget(self) -> None:
        self._lock = threading.RLock()
        if self._wire is not None:
            with contextlib.suppress(OSError):
                self._wire.close()
        self._wire = None


def keep_alive(connection: socket.socket) -> None:
    """Have the kernel find out that the other machine is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class CourierBoard:
    """The ranks' lines, kept by the courier."""

    def __init__(self, courier: Courier, rank: int, carrier: Carrier | None) -> None:
        self._courier, self._rank, self.carrier = courier, rank, carrier

    def clear(self) -> None:
        self._courier.ask({"do": "clear"})

    def open_own(self) -> bool:
        self._courier.ask({"do": "open", "rank": self._rank})
        return True

    def has_own(self) -> bool:
        return bool(self._courier.ask({"do": "has", "rank": self._rank})["has"])

    def append(self, line: bytes) -> None:
        text = base64.b64encode(line).decode()
        self._courier.ask({"do": "append", "rank": self._rank, "line": text})

    def reader(self, rank: int) -> Take:
        number = 0

        def take() -> bytes | None:
            nonlocal number
            question = {"do": "hear", "rank": rank, "at": number, "wait": _HEAR_SECONDS}
            line = self._courier.ask(question)["line"]
            if line is None:
                return None
            number += 1
            return base64.b64decode(line)

        return take

    def is_gone(self, rank: int) -> bool:
        return bool(self._courier.ask({"do": "gone", "rank": rank})["gone"])

    def mark(self, name: str) -> None:
        with contextlib.suppress(OSError):
            self._courier.ask({"do": "mark", "name": name})

    def is_marked(self, name: str) -> bool:
        return bool(self._courier.ask({"do": "marked", "name": name})["marked"])


class CourierCarrier:
    """Brings this host's files to the same place of the first host's run directory."""

    def __init__(self, courier: Courier, run_dir: Path, host: str) -> None:
        self._courier, self._run_dir, self.host = courier, run_dir, host

    def put(self, source: Path, target: Path) -> None:
        self._courier.put(source, target.relative_to(self._run_dir).as_posix())


_own: tuple[int, Courier] | None = None


def current(environment: Mapping[str, str] | None = None) -> Courier | None:
    """This process's connection; None where the ranks share a directory. Raises ConfigError."""
    global _own  # noqa: PLW0603 - a process is in one job
    if _own is None or _own[0] != os.getpid():
        address = Address.from_environment(os.environ if environment is None else environment)
        if address is None:
            return None
        _own = os.getpid(), Courier(address)
    return _own[1]


def carrier(run_dir: Path) -> Carrier | None:
    """What brings this process's files to the first host; None where they are there already."""
    host, found = os.environ.get(CARRIES, ""), current()
    return CourierCarrier(found, run_dir, host) if host and found is not None else None

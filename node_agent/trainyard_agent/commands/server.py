"""The daemon's side of the command socket: one JSON line in, one JSON line out.

Every input is checked before it is used.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from trainyard_agent.host.errors import CommandRefused
from trainyard_agent.host.local_socket import COMMAND_SOCKET, JOB_END_SOCKET, address
from trainyard_agent.host.slurm import SlurmError
from trainyard_agent.jobs.attempt_files import BadBundle
from trainyard_agent.jobs.fence import FenceBusy, Fenced
from trainyard_contracts.commands import Answer, Command, of_words

log = logging.getLogger(__name__)

# Room for the names of all nodes of the largest cluster.
MAX_LINE = 256 * 1024
#: By the command's class. What only people read may be any object.
Handlers = Mapping[type[Command], Callable[[Any], Awaitable[Answer | dict[str, Any]]]]

#: What a command may end with, besides its answer.
_CODES: dict[type[Exception], str] = {
    BadBundle: "bundle-refused",
    Fenced: "fenced",
    FenceBusy: "busy",
    SlurmError: "slurm",
    sqlite3.OperationalError: "disk-full",
    OSError: "disk",
    ValueError: "invalid-request",
    RecursionError: "invalid-request",  # of a request nested too deeply
}


class CommandServer:
    """Listens on agent.sock (0600), and on job-end.sock for the epilog.

    The epilog may run as another user, and can only say 'look'.
    """

    def __init__(self, state_dir: str, handlers: Handlers, on_job_end: Callable[[], None]) -> None:
        self._state_dir, self._handlers, self._on_job_end = state_dir, handlers, on_job_end
        self._server: asyncio.Server | None = None
        self._datagrams: socket.socket | None = None

    async def start(self) -> None:
        listener = _bind(self._state_dir, COMMAND_SOCKET, socket.SOCK_STREAM, 0o600)
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=MAX_LINE)
        # Any user of the node may write here: it only makes us ask Slurm sooner.
        self._datagrams = _bind(self._state_dir, JOB_END_SOCKET, socket.SOCK_DGRAM, 0o666)
        asyncio.get_running_loop().add_reader(self._datagrams.fileno(), self._job_end)

    def _job_end(self) -> None:
        assert self._datagrams is not None
        try:
            self._datagrams.recv(64)
        except BlockingIOError:
            return
        self._on_job_end()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readline(), 10)
            writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError, asyncio.TimeoutError) as error:
            log.info("a command was not answered: %s", str(error) or type(error).__name__)
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            command = of_words(_words(json.loads(line)))
            answer = await self._handlers[type(command)](command)
            return answer.as_json() if isinstance(answer, Answer) else answer
        except CommandRefused as error:
            return {"error": error.code, "message": str(error)}
        except tuple(_CODES) as error:
            code = next(code for kind, code in _CODES.items() if isinstance(error, kind))
            where = (
                f"the agent's state in {self._state_dir} cannot be written: "
                if isinstance(error, sqlite3.OperationalError)
                else ""
            )
            log.warning("a command failed: %s: %s", code, error)
            return {"error": code, "message": f"{where}{error}"}

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._datagrams is not None:
            asyncio.get_running_loop().remove_reader(self._datagrams.fileno())
            self._datagrams.close()
        for name in (COMMAND_SOCKET, JOB_END_SOCKET):
            Path(self._state_dir, name).unlink(missing_ok=True)


def _words(request: object) -> list[str]:
    """Raises ValueError."""
    words = request.get("words") if isinstance(request, dict) else None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError('a request is {"words": [command, options...]}')
    return words


def _bind(directory: str, name: str, kind: socket.SocketKind, mode: int) -> socket.socket:
    """A bound unix socket; one left by a killed daemon is replaced."""
    Path(directory, name).unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, kind)
    bound.setblocking(False)
    before = os.umask(0o777 & ~mode)
    try:
        with address(directory, name) as path:
            bound.bind(path)
    finally:
        os.umask(before)
    return bound

"""The courier of the first host: it keeps the lines of all ranks, takes the files of other hosts'
ranks into the run's directory here, and has a word for each host's program.

All it knows is in memory: it lives as long as the attempt. A rank whose connection ended is gone.
"""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from trainyard_job.ranks import wire
from trainyard_job.ranks.courier import keep_alive

#: A question waits at most so long for its answer.
MOST_WAIT_SECONDS = 30.0
_GREETING_SECONDS = 30.0


@dataclass
class _Lines:
    """One rank's, and the connection that they come by."""

    owner: object
    lines: list[str] = field(default_factory=list)
    gone: bool = False


class Notes:
    """What the hosts' programs say to each other, by name; the last word counts."""

    def __init__(self) -> None:
        self._said: dict[str, Any] = {}
        self._changed = threading.Condition()

    def note(self, name: str, value: Any) -> None:
        with self._changed:
            self._said[name] = value
            self._changed.notify_all()

    def read(self, name: str, wait: float = 0.0) -> Any:
        """None until somebody has said it."""
        with self._changed:
            self._changed.wait_for(lambda: name in self._said, min(wait, MOST_WAIT_SECONDS))
            return self._said.get(name)


class CourierServer:
    """Listens from `start` on."""

    def __init__(self, run_dir: Path, key: bytes) -> None:
        self.notes = Notes()
        #: Hosts whose programs came, and those of them whose connection ended.
        self.came: set[str] = set()
        self.gone: set[str] = set()
        self._run_dir, self._key = run_dir, key
        self._ranks: dict[int, _Lines] = {}
        self._marks: set[str] = set()
        self._changed = threading.Condition()

    def start(self, host: str, port: int) -> CourierServer:
        """Raises OSError."""
        listener = socket.create_server((host, port), backlog=1024)
        threading.Thread(target=self._accept, args=(listener,), daemon=True, name="courier").start()
        return self

    def _accept(self, listener: socket.socket) -> None:
        while True:
            with suppress(OSError):
                connection, _ = listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        caller = _Caller()
        try:
            keep_alive(connection)
            connection.settimeout(_GREETING_SECONDS)
            over = wire.answer(connection, self._key)
            connection.settimeout(None)
            while True:
                asked = over.receive()
                over.send(self._answer(caller, asked, over))
        except (OSError, ValueError, KeyError, TypeError):
            pass  # it ended, or it is none of ours
        finally:
            connection.close()
            self._ended(caller)

    def _ended(self, caller: _Caller) -> None:
        with self._changed:
            for lines in self._ranks.values():
                lines.gone = lines.gone or lines.owner is caller
            if caller.host:
                self.gone.add(caller.host)
            self._changed.notify_all()

    def _answer(self, caller: _Caller, asked: wire.Document, over: wire.Wire) -> wire.Document:
        does = asked["do"]
        if does == "put":
            return self._put(asked, over)
        if does == "note":
            self.notes.note(str(asked["name"]), asked["value"])
            return {}
        if does == "read":
            return {"value": self.notes.read(str(asked["name"]), float(asked["wait"]))}
        if does == "hear":
            return {"line": self._hear(int(asked["rank"]), int(asked["at"]), float(asked["wait"]))}
        with self._changed:
            answer = self._of_ranks(caller, does, asked)
            self._changed.notify_all()
        return answer

    def _of_ranks(self, caller: _Caller, does: str, asked: wire.Document) -> wire.Document:
        rank = self._ranks.get(int(asked.get("rank", -1)))
        if does == "host":
            caller.host = str(asked["name"])
            self.came.add(caller.host)
        elif does == "open":
            self._ranks[int(asked["rank"])] = _Lines(caller)
        elif does == "append" and rank is not None and rank.owner is caller:
            rank.lines.append(str(asked["line"]))
        elif does == "append" and rank is not None:
            return {"failed": "another process took this rank's place"}
        elif does == "append":
            pass  # the board was cleared meanwhile; the rank sees that, and begins again
        elif does == "has":
            return {"has": rank is not None and rank.owner is caller}
        elif does == "gone":
            return {"gone": rank is not None and rank.gone}
        elif does == "clear":
            self._ranks.clear()
            self._marks.clear()
        elif does == "mark":
            self._marks.add(str(asked["name"]))
        elif does == "marked":
            return {"marked": asked["name"] in self._marks}
        else:
            return {"failed": f"'{does}' is no question of this version"}
        return {}

    def _hear(self, rank: int, at: int, wait: float) -> str | None:
        def line() -> str | None:
            found = self._ranks.get(rank)
            return found.lines[at] if found is not None and at < len(found.lines) else None

        with self._changed:
            self._changed.wait_for(lambda: line() is not None, min(wait, MOST_WAIT_SECONDS))
            return line()

    # -- files ------------------------------------------------------------------------------------
    def _put(self, asked: wire.Document, over: wire.Wire) -> wire.Document:
        """All of the body is read, whatever becomes of it: the next frame comes after it."""
        left, hashed = int(asked["bytes"]), hashlib.sha256()
        try:
            target = self._target(str(asked["path"]))
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}.{threading.get_ident()}")
            with open(part, "wb") as stream:
                while left:
                    block = over.read_some(left)
                    left -= len(block)
                    hashed.update(block)
                    stream.write(block)
                stream.flush()
                os.fsync(stream.fileno())
            if hashed.hexdigest() != asked["sha256"]:
                part.unlink()
                return {
                    "failed": f"{asked['path']} arrived with other bytes; it changed on its way"
                }
            os.replace(part, target)
        except ConnectionError:
            raise
        except (OSError, ValueError) as error:
            while left:
                left -= len(over.read_some(left))
            return {"failed": f"{asked['path']}: {error}"}
        return {}

    def _target(self, relative: str) -> Path:
        """Only what is not committed yet may be written. Raises ValueError."""
        path = PurePosixPath(relative)
        temporary = any(part.startswith(".tmp-") for part in path.parts[:-1])
        if path.is_absolute() or ".." in path.parts or not temporary:
            raise ValueError("it is no file of a checkpoint that is being written")
        return self._run_dir / path


@dataclass(eq=False)
class _Caller:
    """One connection; `host`: it is that host's program."""

    host: str = ""

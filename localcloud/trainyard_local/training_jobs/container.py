"""A running container: what it prints, how it is asked to end, and how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from trainyard_local.machines.host import SEARCH_PATH
from trainyard_local.training_jobs.namespaces import Namespaces

INIT = Path(__file__).with_name("container_init.py")
#: All namespaces but network and host name; whoever kills `unshare` kills everything in them.
UNSHARE = (
    "unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child=KILL", "--propagation",
    "private", "--",
)  # fmt: skip
Say = Callable[[list[str]], None]


@dataclass(frozen=True)
class Spec:
    """What container_init.py reads."""

    command: list[str]
    environment: dict[str, str]
    ml: str
    opt: str
    hosts: str
    filesystems: list[tuple[str, str, bool]]


class Container:
    """`ended` is called once, from a thread, when the last of its output was said."""

    def __init__(
        self,
        namespaces: Namespaces,
        spec: Spec,
        file: Path,
        tags: Mapping[str, str],
        say: Say,
        ended: Callable[[], None],
    ) -> None:
        file.touch(mode=0o600)  # it holds the role's keys
        file.write_text(json.dumps(asdict(spec)))
        self._say, self._ended = say, ended
        self._process = subprocess.Popen(
            [*namespaces.enter(), *UNSHARE, sys.executable, "-I", "-S", str(INIT), str(file)],
            env={"PATH": SEARCH_PATH, **tags},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.exit_code: int | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True, name="container")
        self._thread.start()

    @property
    def pid(self) -> int:
        """Of the process that everything in the container comes from."""
        return self._process.pid

    def _follow(self) -> None:
        assert self._process.stdout
        with self._process.stdout as printed:
            for lines in _chunks(printed):
                self._say(lines)
        code = self._process.wait()
        self.exit_code = code if code >= 0 else 128 - code
        self._ended()

    def terminate(self) -> None:
        """SIGTERM for the program's process group, by way of the container's first process."""
        for child in _children(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL for everything in it, and wait until it is gone."""
        self._process.kill()
        if threading.current_thread() is not self._thread:
            self._thread.join()


def _children(pid: int) -> list[int]:
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(child) for child in found.split()]


def _chunks(printed: IO[bytes]) -> Iterator[list[str]]:
    """Whole lines, as many at a time as are there; at last one without an end."""
    rest = b""
    while block := os.read(printed.fileno(), 1 << 16):
        *whole, rest = (rest + block).split(b"\n")
        if whole:
            yield [line.decode(errors="replace") for line in whole]
    if rest:
        yield [rest.decode(errors="replace")]

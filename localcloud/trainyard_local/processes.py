"""Finds and ends processes by the tag in their environment, which survives whoever started them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A live process; `started` (clock ticks since boot) tells it from a later one with the same pid."""

    pid: int
    started: str
    command: str


def tagged(tags: Mapping[str, str]) -> list[Process]:
    """Every live process whose environment carries all of these variables, ourselves excepted."""
    wanted = {f"{name}={value}".encode() for name, value in tags.items()}
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and (process := _matching(entry, wanted)):
            found.append(process)
    return sorted(found, key=lambda p: p.pid)


def _matching(entry: Path, wanted: set[bytes]) -> Process | None:
    try:
        if not wanted <= set((entry / "environ").read_bytes().split(b"\0")):
            return None
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
        command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:  # gone meanwhile, or somebody else's
        return None
    return None if fields[0] == "Z" else Process(int(entry.name), fields[19], command)


def kill_tagged(tags: Mapping[str, str], *, seconds: float = 10.0, spare: set[int] | None = None) -> list[Process]:
    """SIGKILL until none is left, since a process may fork while it is looked for; returns what was ended.

    Raises TimeoutError naming what could not be ended.
    """
    ended: dict[tuple[int, str], Process] = {}
    deadline = time.monotonic() + seconds
    while left := [p for p in tagged(tags) if p.pid not in (spare or set())]:
        for process in left:
            ended[process.pid, process.started] = process
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"these processes do not end: {[f'{p.pid} {p.command}' for p in left]}")
        time.sleep(0.02)
    return list(ended.values())

"""The shared filesystem and the other mounts that a job needs: are they there, do they answer?"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from trainyard_agent.checks import Node, Verdict

EVERY_SECONDS, CONFIRM = 15.0, 2
ANSWER_SECONDS = 5.0
_hanging: set[str] = set()


@dataclass(frozen=True)
class Reading:
    """Mounts that should be there and are not, and those whose stat does not return."""

    missing: tuple[str, ...]
    hanging: tuple[str, ...]


def read(node: Node) -> Reading:
    mounted = {
        line.split()[1].replace("\\040", " ")
        for line in Path("/proc/self/mounts").read_text().splitlines()
    }
    missing = tuple(path for path in node.config.mounts if path not in mounted)
    present = [
        path for path in [*node.config.mounts, node.config.shared_root] if path not in missing
    ]
    return Reading(missing, tuple(path for path in present if not _answers(path)))


def _answers(path: str) -> bool:
    """In a thread that may be left behind (one a path).

    A dead network filesystem blocks stat for ever.
    """
    if path in _hanging:
        return False
    done = threading.Event()

    def ask() -> None:
        try:
            os.statvfs(path)
        except OSError:
            pass
        _hanging.discard(path)
        done.set()

    _hanging.add(path)
    threading.Thread(target=ask, name=f"stat {path}", daemon=True).start()
    return done.wait(ANSWER_SECONDS)


def judge(reading: Reading) -> Verdict:
    if reading.hanging:
        return Verdict(
            "error", f"{', '.join(reading.hanging)} does not answer for {ANSWER_SECONDS:.0f} s"
        )
    if reading.missing:
        return Verdict("error", f"{', '.join(reading.missing)} is not mounted")
    return Verdict("healthy", "all mounted and answering")

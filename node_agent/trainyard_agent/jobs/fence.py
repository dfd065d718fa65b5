"""The run's fence: the number of its newest attempt.

The agent raises it under the lock that a trainer holds while it commits.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from trainyard_agent.host.atomic_file import replace_file
from trainyard_contracts import places

LOCK_SECONDS = 5.0


class Fenced(Exception):
    """A newer attempt of the run exists."""


class FenceBusy(Exception):
    """Another process holds the fence's lock and does not release it."""


def raise_fence(run_dir: Path, attempt: int) -> None:
    """Raise the fence to `attempt`; once this returns no older attempt can commit.

    Raises Fenced, FenceBusy, OSError.
    """
    descriptor = os.open(
        run_dir / places.FENCE_LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666
    )
    try:
        _lock(descriptor, run_dir)
        newest = read_fence(run_dir)
        if newest > attempt:
            raise Fenced(
                f"attempt {newest} of this run exists already; attempt {attempt} must not run"
            )
        if _stored(run_dir) != attempt:
            replace_file(run_dir / places.FENCE, f"{attempt}\n".encode())
    finally:
        os.close(descriptor)


def _lock(descriptor: int, run_dir: Path) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise FenceBusy(
                    f"{run_dir / places.FENCE_LOCK} was held for {LOCK_SECONDS:.0f} s; try again"
                ) from None
            time.sleep(0.01)


def read_fence(run_dir: Path) -> int:
    """The fence's number; 0 if there is no fence.

    If the file is torn, it is the number of the newest attempt that has a directory.
    """
    stored = _stored(run_dir)
    return _newest_started(run_dir) if stored is None else stored


def _stored(run_dir: Path) -> int | None:
    """What the file says, 0 if there is none; None where that is no number.

    Then no trainer commits.
    """
    try:
        text = (run_dir / places.FENCE).read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        return 0
    return int(text) if text.isdigit() and len(text) < 10 else None


def _newest_started(run_dir: Path) -> int:
    return max(
        (
            int(entry.name)
            for entry in (run_dir / places.ATTEMPTS).glob("*")
            if entry.name.isdecimal()
        ),
        default=0,
    )

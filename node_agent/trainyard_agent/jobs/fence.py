"""The run's fence: the number of its newest attempt.

The agent raises it under the lock that a trainer holds while it commits.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from pathlib import Path

from trainyard_agent.host.atomic_file import replace_file
from trainyard_contracts import places

log = logging.getLogger(__name__)

LOCK_SECONDS = 5.0


class Fenced(Exception):
    """A newer attempt of the run exists."""


class FenceBusy(Exception):
    """Another process holds the fence's lock and does not release it."""


def raise_fence(run_dir: Path, attempt: int) -> None:
    """Raise the fence to `attempt`; once this returns no older attempt can commit.

    A directory that has the name of one of its two files is renamed, with all that is in it. Raises
    Fenced, FenceBusy, OSError.
    """
    _make_way(run_dir / places.FENCE_LOCK, attempt)
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
            _make_way(run_dir / places.FENCE, attempt)
            replace_file(run_dir / places.FENCE, f"{attempt}\n".encode())
    finally:
        os.close(descriptor)


def _make_way(path: Path, attempt: int) -> None:
    """What a program put there is kept under another name. Raises OSError."""
    if not path.is_dir() or path.is_symlink():
        return
    aside = path.with_name(f"{path.name}.directory-before-attempt-{attempt}")
    while aside.exists():
        aside = aside.with_name(aside.name + "-again")
    path.rename(aside)
    log.warning("%s was a directory; it is %s now: this name is Trainyard's", path, aside.name)


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
    """What the file says, 0 if there is none; None where that is no number, or no file.

    Then no trainer commits.
    """
    try:
        text = (run_dir / places.FENCE).read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        return 0
    except IsADirectoryError:
        return None
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

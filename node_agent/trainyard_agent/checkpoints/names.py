"""What the names of checkpoints say: which is newer, and of which step it is."""

from __future__ import annotations

import os
from pathlib import Path

from trainyard_agent.host.job_files import may_pass
from trainyard_contracts import places


def listing(directory: Path) -> list[Path]:
    """Committed checkpoints, newest (step, then attempt) first.

    Raises OSError where that cannot be read just now.
    """
    try:
        names = [name for name in os.listdir(directory) if order(name) != (-1, -1)]
    except OSError as error:
        if may_pass(error):
            raise
        return []
    return [directory / name for name in sorted(names, key=order, reverse=True)]


def order(name: str) -> tuple[int, int]:
    """The newer, the larger, among those in one directory: step and attempt, or a copy's number."""
    last = name.rpartition("/")[2]
    if match := places.CHECKPOINT_NAME.match(last):
        return int(match.group(1)), int(match.group(2))
    copy = places.SAVE_NAME.match(last)
    return (int(copy.group(1)), int(copy.group(3))) if copy else (-1, -1)


def step_of(name: str) -> int:
    """The step that a checkpoint's name says."""
    copy = places.SAVE_NAME.match(name.rpartition("/")[2])
    return int(copy.group(2)) if copy else order(name)[0]

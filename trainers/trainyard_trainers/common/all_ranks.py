"""Whether all ranks of an attempt came to the same end: what one rank misses, another may be about
to write, or may just have removed. The shared directory of the attempt is all that they need.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

#: So long a rank that misses a file waits for the others to miss one, too.
SAME_SECONDS = 3.0
_POLL_SECONDS = 0.05


def all_ranks(mark: str, seconds: float = SAME_SECONDS) -> bool:
    """Leave the mark as this rank, and wait until all have; False if they do not in that time.

    A program that was started without ranks is alone on its node.
    """
    rank, world = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if not rank or not world:
        return True
    deadline = time.monotonic() + seconds
    try:
        marks = Path(os.environ["TRAINYARD_ATTEMPT_DIR"]) / mark
        marks.mkdir(exist_ok=True)
        (marks / str(int(rank))).touch()
        while len(os.listdir(marks)) < int(world):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
    except (OSError, ValueError, KeyError):
        return False
    return True

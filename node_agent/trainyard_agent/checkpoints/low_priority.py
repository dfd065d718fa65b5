"""What reads checkpoints lets training go first."""

from __future__ import annotations

import os
import threading

_NICENESS = 10


def lower_priority() -> None:
    """On Linux a thread has a niceness of its own: training comes first."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
    except OSError:
        pass

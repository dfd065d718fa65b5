"""Turns signals into requests that the training loop serves at its next step boundary, and shows
the stacks of a process that hangs.
"""

from __future__ import annotations

import faulthandler
import signal
from types import FrameType

#: What a launcher passes on to the trainers.
FORWARDED = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


class Requests:
    """What the outside asked of this process: SIGTERM = checkpoint and stop, SIGUSR2 = checkpoint
    and go on.
    """

    def __init__(self) -> None:
        self.stop = False
        self.checkpoint = False

    @classmethod
    def install(cls) -> Requests:
        """Take over SIGTERM and SIGUSR2 of the main thread; SIGUSR1 writes its stack to stderr,
        also where it hangs in a library.
        """
        requests = cls()
        signal.signal(signal.SIGTERM, requests._on_stop)
        signal.signal(signal.SIGUSR2, requests._on_checkpoint)
        # Of this thread alone: others may be born and end at that moment, and a walk through their
        # stacks then crashes a healthy process.
        faulthandler.register(signal.SIGUSR1, all_threads=False)
        return requests

    def take(self, before: Requests) -> None:
        """What was asked of those that listened before."""
        self.stop |= before.stop
        self.checkpoint |= before.checkpoint

    def saved(self) -> None:
        """The checkpoint that was asked for is made."""
        self.checkpoint = False

    def _on_stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stop = True

    def _on_checkpoint(self, _number: int, _frame: FrameType | None) -> None:
        self.checkpoint = True

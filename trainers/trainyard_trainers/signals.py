"""Turns signals into requests that the training loop serves at its next step boundary."""

from __future__ import annotations

import signal
from types import FrameType


class Requests:
    """What the outside asked of this process: SIGTERM = checkpoint and stop, SIGUSR1 = checkpoint and go on."""

    def __init__(self) -> None:
        self.stop = False
        self.checkpoint = False

    @classmethod
    def install(cls) -> Requests:
        """Take over SIGTERM and SIGUSR1 of the main thread."""
        requests = cls()
        signal.signal(signal.SIGTERM, requests._on_stop)
        signal.signal(signal.SIGUSR1, requests._on_checkpoint)
        return requests

    def _on_stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stop = True

    def _on_checkpoint(self, _number: int, _frame: FrameType | None) -> None:
        self.checkpoint = True

"""A part of an open file as a stream of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from trainyard_agent.host.digests import BLOCK


class Slice:
    """A part of an open file as a stream of its own, so that a part is never held in memory.

    `pause` is called with the number of bytes that were read; what it raises ends the request.
    """

    def __init__(
        self, stream: IO[bytes], start: int, size: int, pause: Callable[[int], None] | None = None
    ) -> None:
        self._stream, self._start, self.size, self._pause = stream, start, size, pause
        self.seek(0)

    def seek(self, position: int) -> None:
        self._stream.seek(self._start + position)
        self._left = self.size - position

    def read(self, count: int = -1) -> bytes:
        block = self._stream.read(min(BLOCK, self._left) if count < 0 else min(count, self._left))
        self._left -= len(block)
        if self._pause is not None:
            self._pause(len(block))
        return block

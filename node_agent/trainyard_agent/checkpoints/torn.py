"""What is said of a file that is not whole."""

from __future__ import annotations

from collections.abc import Callable

Pause = Callable[[], None]


class Torn(Exception):
    """It is not whole; the text says which file and how."""


def nothing() -> None:
    """For who need not spare anybody's processor."""

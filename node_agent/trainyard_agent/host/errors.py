"""The one error of the agent's commands: a closed code for programs, and words for people."""

from __future__ import annotations


class CommandRefused(Exception):
    """A command cannot be done; `code` is stable, the message says what to do next."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

"""Waits for what goes on at the API: until it is done, the time is over, or Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

import typer
from rich.markup import escape

from ..problems import DETACHED, NotInTime
from ..times import seconds
from .output import err

T = TypeVar("T")
_LONGEST_SECONDS = 30 * 86400
Wait = Annotated[bool, typer.Option("--wait", "-w", help="until it is over")]
Timeout = Annotated[
    int | None,
    typer.Option(
        metavar="TIME",
        parser=seconds(_LONGEST_SECONDS),
        help="wait so long at most, such as 30m; then the status is 124, and it goes on",
    ),
]


@dataclass(frozen=True)
class Waiting:
    """What is waited for, the command that looks at it again, and how long to wait at most."""

    what: str
    back: str
    timeout: float | None = None
    poll_seconds: float = 1.0

    def until(
        self, look: Callable[[], T], done: Callable[[T], bool], state: Callable[[T], str]
    ) -> T:
        """What was seen when it was done. Raises NotInTime, and typer.Exit after Ctrl-C."""
        began = time.monotonic()
        try:
            with err.status(f"Waiting for {escape(self.what)}") as status:
                while not done(found := look()):
                    self._check(began, state(found))
                    status.update(f"{escape(self.what)}: {escape(state(found))}")
                    time.sleep(self.poll_seconds)
                return found
        except KeyboardInterrupt:
            err.print(
                f"\nDetached; nothing was stopped. Look again with: {escape(self.back)}",
                soft_wrap=True,
            )
            raise typer.Exit(DETACHED) from None

    def _check(self, began: float, state: str) -> None:
        if self.timeout is not None and time.monotonic() - began >= self.timeout:
            raise NotInTime(
                "Not finished in time",
                f"{self.what} is {state}",
                f"It goes on. Look again with: {self.back}",
            )

"""Writes what the demo showed as one picture that plays: the run as it went, then the verdict."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from demo.animation import Line, Scene, animated, drawn
from trainyard_cli.screen.live import picture
from trainyard_cli.screen.snapshot import Snapshot

COLUMNS = 110
#: The picture's own clock: waits are shortened, and nobody has to read in less than a blink.
SPEED, SHORTEST, LONGEST, END = 4.0, 0.4, 2.0, 8.0
MOST_SCENES = 60
TITLE = "make demo, recorded; waits are shortened"


class Recording:
    """Keeps what was shown, and when it was shown first."""

    def __init__(self) -> None:
        self.last: Snapshot | None = None
        self._console = _console()
        self._shown: list[tuple[float, tuple[Line, ...]]] = []

    def see(self, snapshot: Snapshot) -> None:
        """Called with every snapshot of the run."""
        self.last = snapshot
        self.show(drawn(self._console, picture(snapshot)), time.monotonic())

    def show(self, lines: tuple[Line, ...], at: float) -> None:
        """`at`: seconds of any clock."""
        if not self._shown or self._shown[-1][1] != lines:
            self._shown.append((at, lines))

    def scenes(self) -> list[Scene]:
        """What was shown, each for its time on the picture's clock."""
        every = -(-len(self._shown) // MOST_SCENES) or 1
        kept = self._shown[::every]
        ends = [at for at, _ in kept[1:]] + [kept[-1][0] + LONGEST * SPEED] if kept else []
        return [
            Scene(lines, min(max((end - at) / SPEED, SHORTEST), LONGEST))
            for (at, lines), end in zip(kept, ends, strict=True)
        ]

    def save(self, path: Path, *rest: Callable[[Console], None]) -> None:
        """Write the SVG; `rest` print the last scene."""
        console = _console()
        for show in rest:
            show(console)
        end = drawn(console, Text.from_ansi(console.export_text(styles=True)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(animated([*self.scenes(), Scene(end, END)], TITLE, COLUMNS))


def _console() -> Console:
    return Console(
        record=True,
        file=io.StringIO(),
        width=COLUMNS,
        force_terminal=True,
        color_system="truecolor",
    )

"""Writes what the demo showed as one SVG for the README: its middle, the timeline, the verdict."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from rich.console import Console, RenderableType

from trainyard_cli.screen.live import picture, print_timeline
from trainyard_cli.screen.snapshot import Snapshot

WIDTH = 150


class Recording:
    """Keeps the moment shortly after the recovery, and the last one."""

    def __init__(self) -> None:
        self.scene: Snapshot | None = None
        self.last: Snapshot | None = None

    def see(self, snapshot: Snapshot) -> None:
        """Called with every snapshot of the run."""
        self.last = snapshot
        attempt = snapshot.attempt
        training_again = (
            attempt
            and attempt["number"] > 1
            and attempt["firstStepAt"]
            and snapshot.run["status"] == "Running"
        )
        if training_again and snapshot.step is not None and len(snapshot.nodes) > 1:
            self.scene = snapshot

    def save(self, path: Path, *rest: Callable[[Console], None]) -> None:
        """Write the SVG; `rest` print what follows the timeline."""
        console = Console(
            record=True,
            file=io.StringIO(),
            width=WIDTH,
            force_terminal=True,
            color_system="truecolor",
        )
        if self.scene is not None:
            scene: RenderableType = picture(self.scene)
            console.print(scene)
        if self.last is not None:
            console.rule("The whole timeline")
            print_timeline(console, self.last.events, soft_wrap=False)  # a picture has an edge
        for show in rest:
            show(console)
        path.parent.mkdir(parents=True, exist_ok=True)
        console.save_svg(str(path), title="make demo")

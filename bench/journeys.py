"""Counts the files that a request, a dead node and a checkpoint pass, and prints them with --files.

A file counts once a call enters it from another one. A turn back is a call into a file that waits,
further up, for this very call: then a reader goes back and forth. In-memory twins take the place of
AWS and the agent, as in tests/app.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from tests.support.story import Story

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("layers/", "functions/", "node_agent/trainyard_agent/", "trainers/trainyard_trainers/")
#: In-memory twins take their place; what those borrow of them is no part of the way.
ADAPTERS = "layers/core/trainyard/aws/"
NODES = ("ip-127-0-1-12", "ip-127-0-1-13", "ip-127-0-1-14")


@dataclass
class Journey:
    """The files on a way, in order, and each turn back from one to another."""

    files: list[str] = field(default_factory=list)
    turns: set[tuple[str, str]] = field(default_factory=set)
    _calls: list[str] = field(default_factory=list)

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """For sys.setprofile."""
        if event == "call":
            here = product_file(frame)
            self._enter(here)
            self._calls.append(here)
        elif event == "return" and self._calls:
            self._calls.pop()

    def _enter(self, here: str) -> None:
        before = next(filter(None, reversed(self._calls)), "")
        if not here or here == before:
            return
        if here not in self.files:
            self.files.append(here)
        if here in self._calls:
            self.turns.add((before, here))


def product_file(frame: FrameType) -> str:
    """Its path in the repository; '' for what is not the product, and for a class being made."""
    path = Path(frame.f_code.co_filename)
    if frame.f_code.co_name == "<module>" or not path.is_relative_to(ROOT):
        return ""
    inside = path.relative_to(ROOT).as_posix()
    return inside if inside.startswith(PRODUCT) and not inside.startswith(ADAPTERS) else ""


def followed(story: Callable[[], object]) -> Journey:
    journey = Journey()
    sys.setprofile(journey.note)
    try:
        story()
    finally:
        sys.setprofile(None)
    return journey


def journeys() -> dict[str, Journey]:
    """To the job's submission; from a loss to the next first step; one committed checkpoint."""
    story = Story()
    lost, *others = NODES

    def request() -> None:
        story.submit()
        story.ready()

    def dead_node() -> None:
        story.lose(lost)
        story.training(*others, step=11)

    asked = followed(request)
    story.training()
    story.checkpoint(10)
    return {
        "request": asked,
        "dead node": followed(dead_node),
        "checkpoint": followed(lambda: story.checkpoint(20)),
    }


def backs(turns: Iterable[tuple[str, str]]) -> list[str]:
    return sorted(f"{source} -> {target}" for source, target in turns)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="name the files, in order")
    shown = parser.parse_args().files
    result = {
        name: {
            "files": journey.files if shown else len(journey.files),
            "turnsBack": backs(journey.turns),
        }
        for name, journey in journeys().items()
    }
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

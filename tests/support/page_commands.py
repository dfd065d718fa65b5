"""The commands and files of a page for users: what its reader types and saves, in the page's order.

A fence of `sh` is typed line by line. A fence with `title="NAME"` is a file of that name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.repository import ROOT

USE = ROOT / "docs/use"
FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"\n]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Whose lines are a batch script to be compared with, and nothing to be typed.
SCRIPT = "#!/bin/bash"


@dataclass(frozen=True)
class File:
    """What the reader saves."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """What the reader types."""

    line: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.line, comments=True)


def pages() -> list[Path]:
    return sorted(USE.glob("*.md"))


def steps(page: Path) -> Iterator[File | Command]:
    for language, title, body in FENCE.findall(page.read_text()):
        if title:
            yield File(title, body)
        elif language == "sh" and not body.startswith(SCRIPT):
            for line in body.splitlines():
                if line.strip() and not line.startswith("#"):
                    yield Command(line)

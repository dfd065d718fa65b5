"""Pages, templates, settings and scripts keep to 100 columns, as Python does by its formatter."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.repository import ROOT

COLUMNS = 100
#: A line that has no space from here to the last column has no good place to be broken.
BREAKABLE = 60
#: A line that is one string and what closes a list: JSON has no way to break it.
STRING = re.compile(r'\s*"(\\.|[^"\\])*"[],}]*')
#: What commands make.
MADE = {"build", "dist", "node_modules", "packages"}
#: Of files that people write. A file without an ending is a program, a Makefile or the like.
ENDINGS = {".md", ".yaml", ".yml", ".sh", ".toml", ".in", ".txt", ".service", ".slice", ".conf", ""}


def held() -> Iterator[Path]:
    yield ROOT / ".ci/run"
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not made(name)]
        for name in names:
            if Path(name).suffix in ENDINGS and not name.startswith("."):
                yield Path(folder, name)


def made(folder: str) -> bool:
    return folder in MADE or folder.startswith(".") or folder.endswith(".egg-info")


def too_long(line: str, page: bool) -> bool:
    """A table of a page is exempt: Markdown has no way to break its rows."""
    if len(line) <= COLUMNS or (page and line.lstrip().startswith("|")):
        return False
    return " " in line[BREAKABLE : COLUMNS + 1] and not STRING.fullmatch(line)


def test_what_people_write_has_lines_of_100_columns() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in held()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if too_long(line, page=path.suffix == ".md")
    ]
    assert not found, f"break these lines before column {COLUMNS}: {', '.join(found)}"


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/recovery.md",
        "template.yaml",
        "Makefile",
        ".ci/run",
        "pyproject.toml",
        "requirements/dev.in",
        "requirements/dev.txt",
        "node_agent/lifecycle/on_create.sh",
        "node_agent/lifecycle/trainyard-agent",
        "node_agent/lifecycle/trainyard-agent.service",
        "node_agent/lifecycle/trainyard.slice",
    ],
)
def test_every_kind_of_file_is_held_to_it(name: str) -> None:
    assert ROOT / name in list(held())


@pytest.mark.parametrize(
    ("line", "page", "long"),
    [
        ("word " * 20, True, False),
        ("word " * 21, True, True),
        ("| " + "word " * 21 + "|", True, False),
        ("| " + "word " * 21 + "|", False, True),
        ("- [a page](https://" + "a" * 100 + ")", True, False),
        ("    Resource: !Sub arn:" + "a" * 100, False, False),
        ('    "' + "word " * 21 + '\\"quoted\\"",', False, False),
        ('    "' + "word " * 21 + '", "more"', False, True),
    ],
)
def test_only_a_line_that_cannot_be_broken_may_be_longer(line: str, page: bool, long: bool) -> None:
    assert too_long(line, page) is long

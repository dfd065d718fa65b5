"""Pages, templates and scripts keep to 100 columns, to which only Python has a formatter."""

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


def held() -> Iterator[Path]:
    yield ROOT / ".ci/run"
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in MADE and not name.startswith(".")]
        for name in names:
            if name == "Makefile" or name.endswith((".md", ".yaml", ".yml", ".sh")):
                yield Path(folder, name)


def too_long(line: str, page: bool) -> bool:
    """A table of a page is exempt: Markdown has no way to break its rows."""
    if len(line) <= COLUMNS or (page and line.lstrip().startswith("|")):
        return False
    return " " in line[BREAKABLE : COLUMNS + 1] and not STRING.fullmatch(line)


def test_pages_templates_and_scripts_have_lines_of_100_columns() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in held()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if too_long(line, page=path.suffix == ".md")
    ]
    assert not found, f"break these lines before column {COLUMNS}: {', '.join(found)}"


@pytest.mark.parametrize(
    "name", ["README.md", "docs/recovery.md", "template.yaml", "Makefile", ".ci/run"]
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

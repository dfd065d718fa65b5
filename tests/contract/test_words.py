"""Pages, templates, settings and scripts keep to 100 columns, as Python does by its formatter.

Comments and docstrings say who does what: words that leave it open are rare in them.
"""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections import Counter
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
CODE = (
    *("layers", "functions", "node_agent", "job_library", "trainers", "localcloud", "cli"),
    *("demo", "bench"),
)
#: How often comments and docstrings of all of the code may have a word in which one has to guess
#: who is meant, or what is done.
RARE = {"told": 20, "stands": 6, "whoever": 6}


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


def words_beside_code(source: str) -> Iterator[str]:
    """The comments and docstrings of a Python file."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""


def test_comments_and_docstrings_say_who_does_what() -> None:
    found: dict[str, Counter[str]] = {word: Counter() for word in RARE}
    for path in (path for folder in CODE for path in Path(ROOT, folder).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if not MADE.intersection(name.split("/")):
            words = re.findall(r"[a-z]+", " ".join(words_beside_code(path.read_text())).lower())
            for word, places in found.items():
                places[name] += words.count(word)
    for word, places in found.items():
        most = ", ".join(f"{name} ({count})" for name, count in places.most_common(20) if count)
        assert places.total() <= RARE[word], f"say who does what, without '{word}': {most}"


def test_comments_and_docstrings_are_read_and_code_is_not() -> None:
    source = 'def told() -> str:\n    """One."""\n    return "told"  # two\n'
    assert sorted(filter(None, words_beside_code(source))) == ["# two", "One."]

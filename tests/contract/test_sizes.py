"""Files and functions stay as small as decision 27 wants them."""

from __future__ import annotations

import ast
import statistics
import textwrap
from pathlib import Path

from tests.support.repository import ROOT

PLACES = ("layers", "functions", "node_agent", "trainers", "cli")
#: Of all files, in lines.
MEDIAN_FILE = 78
#: Of a function with its decorators, signature and docstring, in lines.
LONGEST_FUNCTION = 40


def files() -> list[Path]:
    found = (path for place in PLACES for path in (ROOT / place).rglob("*.py"))
    return sorted(path for path in found if not {"build", ".venv"} & set(path.parts))


def functions(source: str) -> list[tuple[int, str]]:
    """How long each function is, and its name."""
    nodes = ast.walk(ast.parse(source))
    return [
        (node.end_lineno - min(_lines(node)) + 1, node.name)
        for node in nodes
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno
    ]


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[int]:
    return [node.lineno, *(decorator.lineno for decorator in node.decorator_list)]


def test_no_function_is_longer_than_a_screen() -> None:
    too_long = [
        f"{path.relative_to(ROOT)} {name}: {length}"
        for path in files()
        for length, name in functions(path.read_text())
        if length > LONGEST_FUNCTION
    ]
    assert not too_long, f"split each at a seam: {too_long}"


def test_a_file_is_one_thing() -> None:
    lengths = [len(path.read_text().splitlines()) for path in files()]
    assert len(lengths) > 500
    median = statistics.median_low(lengths)
    assert median <= MEDIAN_FILE, (
        f"the median file has {median} lines: split those that hold several things"
    )


def test_decorators_and_docstrings_count() -> None:
    source = (
        textwrap.dedent(
            '''
        @one
        @two
        def short(
            a: int,
        ) -> int:
            """What it does."""
            return a

        class Thing:
            async def longer(self) -> None:
        '''
        )
        + "        pass\n" * 40
    )
    assert functions(source) == [(7, "short"), (41, "longer")]

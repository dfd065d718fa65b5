"""Each adapter of trainyard_job has a page, a whole program, and a test that runs the program."""

from __future__ import annotations

import re

import pytest
from tests.support.repository import ROOT

import trainyard_job

PAGES = ROOT / "docs/programs"
PROGRAMS = sorted((ROOT / "examples/programs").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_has_a_page_and_is_run_by_a_test(program: object) -> None:
    name = getattr(program, "name", "")
    assert any(f"examples/programs/{name})" in page.read_text() for page in PAGES.glob("*.md"))
    tests = (ROOT / "tests/unit/trainyard_job").glob("test_*.py")
    assert any(f'"{name}"' in test.read_text() for test in tests)


def test_the_table_of_pages_has_all_of_them() -> None:
    listed = re.findall(r"\]\(([\w-]+\.md)\) \|", (PAGES / "README.md").read_text())
    assert sorted(listed) == sorted(
        page.name for page in PAGES.glob("*.md") if page.name != "README.md"
    )


def test_the_table_of_functions_has_all_of_them() -> None:
    listed = set(re.findall(r"^\| `(\w+)\(", (PAGES / "README.md").read_text(), re.M))
    functions = {name for name in trainyard_job.__all__ if name[0].islower()}
    assert listed == functions

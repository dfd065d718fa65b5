"""The tests are a map of the code: a module's test is found by its path or by one table."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

from tests.support.repository import ROOT

#: The folders whose packages have their unit tests below tests/unit, at the same path.
PACKAGES = (
    ("layers/core", "trainyard"),
    ("layers/contracts", "trainyard_contracts"),
    ("node_agent", "trainyard_agent"),
    ("node_agent", "lifecycle"),
    ("trainers", "trainyard_trainers"),
    ("cli", "trainyard_cli"),
    ("localcloud", "sam_on_moto"),
    ("localcloud", "trainyard_local"),
    (".", "demo"),
    (".", "scripts"),
)
#: A shorter module is tested with those that use it.
LINES = 60


def modules() -> list[Path]:
    """Paths of modules, each from the folder of its package."""
    return [
        path.relative_to(ROOT / folder)
        for folder, package in PACKAGES
        for path in sorted((ROOT / folder / package).rglob("*.py"))
        if len(path.read_text().splitlines()) >= LINES
    ]


def has_its_test(module: Path) -> bool:
    name = module.parent.name if module.stem == "__init__" else module.stem
    test = ROOT / "tests/unit" / module.parent / f"test_{name}.py"
    return test.is_file() and holds_a_test(test.read_text())


def holds_a_test(source: str) -> bool:
    """A file that holds no test is none."""
    return re.search(r"^ *(async )?def test_", source, re.MULTILINE) is not None


def rows() -> list[tuple[list[str], list[str]]]:
    """Of the table "tested by": patterns of modules, and the tests."""
    text = (ROOT / "docs/testing.md").read_text().partition("## Tested by")[2].partition("\n## ")[0]
    cells = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return [
        (re.findall(r"`(.+?)`", left), re.findall(r"`([^` ]+/[^` ]+)`", right))
        for left, right in cells
    ]


def test_a_modules_test_lies_at_its_path_or_the_table_says_where_it_is_tested() -> None:
    patterns = [pattern for row, _ in rows() for pattern in row]
    missing = [
        str(module)
        for module in modules()
        if not has_its_test(module)
        and not any(fnmatch(str(module), pattern) for pattern in patterns)
    ]
    assert not missing, f"write the test, or a row in docs/testing.md: {missing}"


def test_the_table_names_modules_without_a_test_of_their_own_and_tests_that_there_are() -> None:
    lacking = [str(module) for module in modules() if not has_its_test(module)]
    for patterns, tests in rows():
        for pattern in patterns:
            assert any(fnmatch(module, pattern) for module in lacking), f"{pattern} needs no row"
        for test in tests:
            assert (ROOT / test).exists(), f"{test} is not there"


def test_a_unit_test_lies_in_the_folder_of_what_it_tests() -> None:
    folders = {package: ROOT / folder for folder, package in PACKAGES} | {"bench": ROOT}
    for path in (ROOT / "tests/unit").rglob("test_*.py"):
        place = path.relative_to(ROOT / "tests/unit").parent
        assert place.parts, f"{path}: it lies in no package's folder"
        assert (folders[place.parts[0]] / place).is_dir(), f"{path}: no such package"


def test_a_file_without_a_test_in_it_counts_for_nothing() -> None:
    assert not holds_a_test("")
    assert not holds_a_test('"""About test_it."""\n# def test_it() -> None:\n')
    assert holds_a_test("def test_it() -> None:\n    assert True\n")
    for path in (ROOT / "tests").rglob("test_*.py"):
        assert holds_a_test(path.read_text()), f"{path}: it holds no test"

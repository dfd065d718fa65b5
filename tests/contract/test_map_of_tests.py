"""The tests are a map of the code: a module's test is found by its path or by one table."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
from tests.support.repository import ROOT

#: The folders whose packages have their unit tests below tests/unit, at the same path.
PACKAGES = (
    ("layers/core", "trainyard"),
    ("layers/contracts", "trainyard_contracts"),
    ("node_agent", "trainyard_agent"),
    ("node_agent", "lifecycle"),
    ("job_library", "trainyard_job"),
    ("job_library", "trainyard_container"),
    ("trainers", "trainyard_trainers"),
    ("cli", "trainyard_cli"),
    ("cli", "trainyard_sdk"),
    ("localcloud", "sam_on_moto"),
    ("localcloud", "trainyard_local"),
    (".", "bench"),
    (".", "demo"),
    (".", "scripts"),
    (".", "node_agent/build_packages.py"),
)
#: What commands make, and what is no code of ours to be tested; `tests/contract` holds the programs
#: of examples to their tests.
LEFT_OUT = {"build", "dist", "examples", "node_modules", "packages", "tests"}
MARK = re.compile(
    r"^(?:pytestmark = |@).*\bmark\.(real|machines|parallelcluster|conformance)\b", re.MULTILINE
)
#: A shorter module is tested with those that use it.
LINES = 60


def every_module() -> Iterator[Path]:
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not (name in LEFT_OUT or name.startswith("."))]
        for name in names:
            path = Path(folder, name)
            if path.suffix == ".py" and len(path.read_text().splitlines()) >= LINES:
                yield path


def of_package(path: Path) -> Path | None:
    """The module's path from the folder of its package; None if it is in none of them."""
    for folder, package in PACKAGES:
        if path.is_relative_to(ROOT / folder / package):
            return path.relative_to(ROOT / folder)
    return None


def modules() -> list[Path]:
    return sorted(filter(None, map(of_package, every_module())))


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


def test_no_module_is_left_out() -> None:
    missing = [str(path) for path in every_module() if of_package(path) is None]
    assert not missing, f"enter their package here, so that their tests are looked for: {missing}"


def names_from(path: Path) -> list[str]:
    """The modules or the folder that a unit test has its name from."""
    place = path.relative_to(ROOT / "tests/unit").parent
    what = path.stem.removeprefix("test_")
    names = [
        name
        for folder, package in PACKAGES
        if place.parts[:1] == Path(package).parts[:1] and (ROOT / folder / place).is_dir()
        for name in [place.name, *(found.stem for found in (ROOT / folder / place).glob("*.py"))]
    ]
    return [name for name in names if what == name or what.startswith(f"{name}_")]


def test_a_unit_test_lies_in_the_folder_of_what_it_tests_and_has_its_name() -> None:
    for path in (ROOT / "tests/unit").rglob("test_*.py"):
        assert names_from(path), f"{path}: no such module (test_MODULE.py, test_MODULE_WHAT.py)"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("trainyard/domain/test_recovery.py", True),
        ("trainyard/domain/test_recovery_repairs.py", True),
        ("trainyard_agent/checks/test_checks.py", True),
        ("trainyard/domain/test_trouble.py", False),
        ("trainyard/aws/test_recovery.py", False),
        ("test_recovery.py", False),
        ("nowhere/test_nowhere.py", False),
    ],
)
def test_a_test_that_belongs_to_no_module_is_found(name: str, found: bool) -> None:
    assert bool(names_from(ROOT / "tests/unit" / name)) == found


def test_a_mark_stands_where_the_page_says() -> None:
    for path in (ROOT / "tests").rglob("test_*.py"):
        level = path.relative_to(ROOT / "tests").parts[0]
        marks = MARK.findall(path.read_text())
        assert "real" not in marks or level == "unit", f"{path}: `real` divides tests/unit only"
        for mark in ("machines", "parallelcluster", "conformance"):
            assert (mark in marks) == (level == mark), f"{path}: its level is its folder"


def test_a_file_without_a_test_in_it_counts_for_nothing() -> None:
    assert not holds_a_test("")
    assert not holds_a_test('"""About test_it."""\n# def test_it() -> None:\n')
    assert holds_a_test("def test_it() -> None:\n    assert True\n")
    for path in (ROOT / "tests").rglob("test_*.py"):
        assert holds_a_test(path.read_text()), f"{path}: it holds no test"

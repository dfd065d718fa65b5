"""What tests share is written once: ways to wait, builders of records, and where our files lie."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.repository import ROOT

#: Where each function of such a name is; other modules of tests/support have none of it.
BUILDERS = {
    "eventually": "waiting.py",
    "run": "records.py",
    "cluster": "records.py",
    "cluster_spec": "spec_parts.py",
}


def modules(folder: Path = ROOT / "tests") -> Iterator[tuple[Path, str]]:
    return ((path, path.read_text()) for path in sorted(folder.rglob("*.py")))


def functions(text: str) -> list[str]:
    return re.findall(r"^def (\w+)", text, re.MULTILINE)


def climbs(text: str) -> bool:
    """Whether it looks for something above its own folder."""
    if "__file__" not in text:
        return False
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Subscript | ast.Attribute):
            continue
        parts = list(ast.walk(node))
        ups = [part.attr for part in parts if isinstance(part, ast.Attribute)]
        own = any(isinstance(part, ast.Name) and part.id == "__file__" for part in parts)
        if own and ("parents" in ups or ups.count("parent") > 1):
            return True
    return False


def test_support_has_one_function_of_each_builders_name() -> None:
    for path, text in modules(ROOT / "tests/support"):
        for name in set(functions(text)) & set(BUILDERS):
            assert path.name == BUILDERS[name], f"{path.name}: a second {name}()"


def test_tests_wait_in_one_way() -> None:
    for path, text in modules():
        if path.name != BUILDERS["eventually"]:
            assert "eventually" not in functions(text), f"{path}: it is in tests/support/waiting.py"


def test_one_module_says_where_the_repository_is() -> None:
    found = [str(path.relative_to(ROOT)) for path, text in modules() if climbs(text)]
    assert found == ["tests/support/repository.py"], "ROOT of tests/support/repository.py is it"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ROOT = Path(__file__).resolve().parents[2]", True),
        ("DATA = Path(__file__).parent.parent / 'data'", True),
        ("HERE = Path(__file__).parent", False),
        ("runs = attempt.parents[1]", False),
        ("MODULE = Path(package.__file__).parent / 'data'", False),
    ],
)
def test_only_a_climb_from_the_own_file_is_found(text: str, found: bool) -> None:
    assert climbs(text) == found

"""sam_on_moto can be installed by itself: its pyproject.toml names all that it is and needs."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import tomllib

import sam_on_moto

HOME = Path(sam_on_moto.__file__).parent
ROOT = HOME.parents[1]
PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text())
#: Where a module's distribution has another name, or comes with another one.
DISTRIBUTIONS = {
    "botocore": "boto3",
    "samtranslator": "aws-sam-translator",
    "werkzeug": "moto",
    "yaml": "pyyaml",
}


def modules() -> list[Path]:
    rooms = [HOME, *(path.parent for path in HOME.glob("*/__init__.py"))]
    return [path for room in rooms for path in sorted(room.glob("*.py"))]


def imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = [n.name for node in ast.walk(tree) if isinstance(node, ast.Import) for n in node.names]
    names += [
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
    ]
    return {name.partition(".")[0] for name in names}


def test_each_room_is_a_package_of_the_distribution() -> None:
    rooms = sorted(path.parent.name for path in HOME.glob("*/__init__.py"))
    packages = ["sam_on_moto", *(f"sam_on_moto.{room}" for room in rooms)]
    assert PROJECT["tool"]["setuptools"]["packages"] == packages


def test_no_room_has_the_name_of_a_module_of_the_standard_library() -> None:
    """`python -m sam_on_moto` in this folder would import the room in its place."""
    names = {path.stem for path in HOME.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert names & sys.stdlib_module_names == set()


def test_each_library_that_is_imported_is_a_dependency() -> None:
    named = {re.split(r"[\[=<>]", line)[0] for line in PROJECT["project"]["dependencies"]}
    libraries = {name for path in modules() for name in imported(path)}
    libraries -= {*sys.stdlib_module_names, "sam_on_moto"}
    assert {DISTRIBUTIONS.get(name, name) for name in libraries} <= named


def test_moto_is_the_one_that_all_is_locked_with() -> None:
    [moto] = [line for line in PROJECT["project"]["dependencies"] if line.startswith("moto")]
    assert moto in (ROOT / "requirements/runtime.in").read_text().splitlines()

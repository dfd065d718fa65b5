"""The name of an error is one thing: no other part gives it to an error of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.repository import ROOT

from trainyard.domain import errors

PACKAGES = ("layers", "functions", "node_agent", "job_library", "trainers", "localcloud", "cli")


def classes() -> Iterator[tuple[str, str]]:
    """Every class with the file that makes it."""
    for path in (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield node.name, str(path.relative_to(ROOT))


def test_no_other_class_has_the_name_of_an_error_of_the_control_plane() -> None:
    ours = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert {"TrainyardError", "RunNotFound"} <= ours
    found = [(name, path) for name, path in classes() if name in ours]
    assert [path for _, path in found if path != "layers/core/trainyard/domain/errors.py"] == []

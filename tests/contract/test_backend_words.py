"""No word of a backend is known outside its own modules, but for its entry in the wiring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainyard_contracts.cluster_base import ClusterBase, GroupBase
from trainyard_contracts.hyperpod import HyperPodClusterSpec, HyperPodGroup

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "layers/core/trainyard"
SOURCES = [
    path
    for directory in (CORE, ROOT / "functions", ROOT / "localcloud/sam_on_moto")
    for path in sorted(directory.rglob("*.py"))
    if CORE / "backends" not in path.parents and path != CORE / "wiring.py"
]
FIELDS = {*HyperPodClusterSpec.model_fields, *HyperPodGroup.model_fields} - {
    *ClusterBase.model_fields,
    *GroupBase.model_fields,
}
#: Of its API: where the port has another word for the same.
STATES = {"SystemUpdating", "RollingBack", "DeepHealthCheckInProgress"}


def words(source: str) -> Iterator[str]:
    """Names and strings of the code; comments and docstrings may say why something is so."""
    tree = ast.parse(source)
    told = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.name for alias in node.names)
            yield getattr(node, "module", None) or ""


def hyperpods(source: str) -> list[str]:
    return [
        word
        for word in words(source)
        if "hyperpod" in word.lower()
        or "sagemaker" in word.lower()
        or word in FIELDS
        or any(state in word for state in STATES)
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_outside_the_backend_has_a_word_of_hyperpod(path: Path) -> None:
    assert hyperpods(path.read_text()) == []


@pytest.mark.parametrize(
    "line",
    [
        "from trainyard.backends.hyperpod.backend import HyperPod",
        "wait = node.status == 'SystemUpdating'",
        "source = envelope['source'] == 'aws.sagemaker'",
        "if cluster.spec.node_recovery == 'Automatic': pass",
    ],
)
def test_a_word_of_hyperpod_is_found(line: str) -> None:
    assert hyperpods(f'"""HyperPod may be named here."""\n{line}  # and on HyperPod here\n')

"""No word of a backend is known outside its own modules, but for its entries in two lists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.repository import ROOT

from trainyard_contracts.cluster_base import GroupBase
from trainyard_contracts.hyperpod import HyperPodClusterSpec, HyperPodGroup
from trainyard_contracts.slurm_cluster import SlurmCluster

CORE = ROOT / "layers/core/trainyard"
SOURCES = [
    path
    for directory in (CORE, ROOT / "functions", ROOT / "localcloud/sam_on_moto")
    for path in sorted(directory.rglob("*.py"))
    if CORE / "backends" not in path.parents and path != CORE / "wiring.py"
]
CONTRACTS = ROOT / "layers/contracts/trainyard_contracts"
COMMON_CONTRACTS = [
    path
    for path in sorted(CONTRACTS.rglob("*.py"))
    if path.name != "cluster_specs.py"
    and not path.name.startswith(("hyperpod", "parallelcluster", "training_job"))
]
#: Here no comment and no docstring has one either: what is said there is true of every backend.
SHARED = [
    *sorted((CORE / "domain").rglob("*.py")),
    *sorted((CORE / "app").rglob("*.py")),
    *COMMON_CONTRACTS,
]
#: No function reads what they say; fields of every backend have examples of its own.
EXAMPLES = {
    CORE / "http/openapi.py",
    CORE / "http/openapi_examples.py",
    CORE / "http/openapi_words.py",
}
ALLOWED = {
    # Refused in every spec, field by field, before it is known whose spec it is.
    CONTRACTS / "spec_rules.py": ("/opt/sagemaker",),
    # The same hyperparameters on every backend: what no program would see on one is refused.
    CONTRACTS / "hyperparameters.py": ("sagemaker_",),
    # In the cluster.json of clusters that run; another backend's scripts may have another setup.
    CONTRACTS / "cluster_file.py": ("slurm_setup", "shared_filesystem"),
}
FIELDS = {*HyperPodClusterSpec.model_fields, *HyperPodGroup.model_fields} - {
    *SlurmCluster.model_fields,
    *GroupBase.model_fields,
}
NAME = re.compile("hyperpod|sagemaker|parallelcluster", re.IGNORECASE)
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


def names(path: Path, text: str) -> list[str]:
    """Lines that name HyperPod in whatever way."""
    for word in ALLOWED.get(path, ()):
        assert word in text, "no longer there: remove it from ALLOWED"
        text = text.replace(f'"{word}"', "")
    return [line for line in text.splitlines() if NAME.search(line)]


@pytest.mark.parametrize("path", SHARED, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_every_backend_shares_does_not_name_hyperpod_even_in_a_comment(path: Path) -> None:
    assert names(path, path.read_text()) == []


@pytest.mark.parametrize(
    "line",
    ["# HyperPod reboots a node", '"""SageMaker\'s own word."""', "'/opt/sagemaker/x'"],
)
def test_a_comment_that_names_hyperpod_is_found(line: str) -> None:
    assert names(CORE / "domain/nodes.py", f"wait = 1\n{line}\n") == [line]


@pytest.mark.parametrize("path", COMMON_CONTRACTS, ids=lambda path: path.name)
def test_no_contract_of_all_backends_has_a_word_of_hyperpod(path: Path) -> None:
    assert [word for word in hyperpods(path.read_text()) if word not in ALLOWED.get(path, ())] == []


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if path not in EXAMPLES],
    ids=lambda path: str(path.relative_to(ROOT)),
)
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

"""Our tables have every word of the API's own description, and only validators that there are."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.parallelcluster.cloud import PYTHON

from trainyard.backends.parallelcluster import places, states
from trainyard.backends.parallelcluster.refusals import VERSION
from trainyard_contracts import parallelcluster_parts, parallelcluster_storage

pytestmark = pytest.mark.parallelcluster


@pytest.fixture(scope="module")
def package() -> Path:
    """ParallelCluster's own sources."""
    if not PYTHON.exists():
        pytest.skip("make test-parallelcluster makes the environment of ParallelCluster's API")
    (found,) = PYTHON.parents[1].glob("lib/python3*/site-packages/pcluster")
    return found


@pytest.fixture(scope="module")
def schemas(package: Path) -> dict[str, Any]:
    description = yaml.safe_load((package / "api/openapi/openapi.yaml").read_text())
    return dict(description["components"]["schemas"])


@pytest.mark.parametrize(
    ("schema", "table"),
    [
        ("ClusterStatus", states.CLUSTERS),
        ("CloudFormationStackStatus", states.STACKS),
        ("ComputeFleetStatus", states.FLEETS),
        ("InstanceState", states.NODES),
    ],
)
def test_each_word_of_the_api_is_translated(
    schemas: dict[str, Any], schema: str, table: dict[str, Any]
) -> None:
    assert set(table) == set(schemas[schema]["enum"])


def test_each_validator_of_our_table_is_there(package: Path) -> None:
    sources = [path.read_text() for path in (package / "validators").glob("*.py")]
    there = {
        node.name
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
    }
    assert set(places.PLACES) - there == set()


def test_the_version_is_the_one_that_is_tried(package: Path) -> None:
    assert package.parent.joinpath(f"aws_parallelcluster-{VERSION}.dist-info").is_dir()


def test_our_numbers_are_those_of_its_constants(package: Path) -> None:
    tree = ast.parse((package / "constants.py").read_text())
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in ("SUPPORTED_OSES", "FSX_SSD_THROUGHPUT", "FSX_HDD_THROUGHPUT")
    }
    ssd = {
        deployment: list(found)
        for (deployment, disks), found in parallelcluster_storage.THROUGHPUT.items()
        if disks == "SSD"
    }
    assert ssd == constants["FSX_SSD_THROUGHPUT"]
    assert (
        list(parallelcluster_storage.THROUGHPUT["PERSISTENT_1", "HDD"])
        == (constants["FSX_HDD_THROUGHPUT"])
    )
    assert set(parallelcluster_parts.Os.__args__) == set(constants["SUPPORTED_OSES"])

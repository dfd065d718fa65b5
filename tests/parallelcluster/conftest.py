"""One pair of servers for all tests of this folder; skipped where their environment is missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.parallelcluster import cloud as clouds


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clouds.Cloud]:
    if not clouds.PYTHON.exists():
        pytest.skip("make test-parallelcluster makes the environment of ParallelCluster's API")
    with clouds.running(tmp_path_factory.mktemp("parallelcluster")) as made:
        yield made

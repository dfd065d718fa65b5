"""Fixtures of the tests on real nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.node_cloud import NodeCloud


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCloud]:
    """A HyperPod of a module's own; whatever its tests did, nothing of it is left."""
    from tests.support.node_cloud import NodeCloud

    cloud = NodeCloud(tmp_path_factory.mktemp("cloud"))
    yield cloud
    cloud.close()
    assert cloud.leftovers() == []

"""The table of template.yaml for tests of the stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.store_table import mocked_dynamodb, new_table

from trainyard.aws.table import Table


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[Any]:
    with mocked_dynamodb() as client:
        yield client


@pytest.fixture
def table(dynamodb: Any) -> Table:
    return new_table(dynamodb)

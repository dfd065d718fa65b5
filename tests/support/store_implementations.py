"""Every implementation of the stores, by name, so that one suite tells the same stories to all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.support.memory import MemoryClusters, MemoryRuns, MemoryWaits
from tests.support.store_table import dynamodb_table

from trainyard.aws.clusters import TableClusters
from trainyard.aws.runs import TableRuns
from trainyard.aws.waits import TableWaits
from trainyard.ports import Clusters, Runs, Waits

NAMES = ["dynamodb", "memory"]


@contextlib.contextmanager
def opened(name: str) -> Iterator[tuple[Runs, Clusters, Waits]]:
    """Empty stores of one implementation."""
    if name == "memory":
        yield MemoryRuns(), MemoryClusters(), MemoryWaits()
        return
    with dynamodb_table() as table:
        yield TableRuns(table), TableClusters(table), TableWaits(table)

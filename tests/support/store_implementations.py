"""Every implementation of the stores, by name, so that one suite tells the same stories to all."""

from __future__ import annotations

from typing import Any

from tests.support.memory import MemoryClusters, MemoryRuns, MemoryWaits
from tests.support.store_table import new_table

from trainyard.aws.clock import SystemClock
from trainyard.aws.clusters import TableClusters
from trainyard.aws.runs import TableRuns
from trainyard.aws.waits import TableWaits
from trainyard.outside.clusters import Clusters
from trainyard.outside.runs import Runs
from trainyard.outside.waits import Waits

NAMES = ["dynamodb", "memory"]


def opened(name: str, dynamodb: Any) -> tuple[Runs, Clusters, Waits]:
    """Empty stores of one implementation."""
    if name == "memory":
        return MemoryRuns(SystemClock()), MemoryClusters(SystemClock()), MemoryWaits()
    table = new_table(dynamodb)
    return TableRuns(table, SystemClock()), TableClusters(table, SystemClock()), TableWaits(table)

"""Records and facts for tests of the stores: small, each second its own."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from tests.support.facts import fact as made_fact
from tests.support.records import cluster, run

from trainyard.domain.records import Cluster, Run
from trainyard_contracts.events import (
    AttemptStepped,
    ClusterHeartbeat,
    Fact,
    NodeSample,
    NodesChanged,
)

T0 = datetime(2026, 11, 20, 12, 0, 0, 123456, tzinfo=timezone.utc)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def numbered_run(number: int, **changes: Any) -> Run:
    made = {
        "id": f"run-{number:026d}",
        "created_at": at(number),
        "updated_at": at(number),
        "cluster_name": f"demo-{number}",
    }
    return run(**{**made, **changes})


def new_cluster(name: str = "demo", second: float = 0, **changes: Any) -> Cluster:
    made = {
        "name": name,
        "status": "Creating",
        "created_at": at(second),
        "updated_at": at(second),
        "arn": None,
    }
    return cluster(**{**made, **changes})


def fact(number: int, second: float = 0, attempt: int | None = None, **data: Any) -> Fact:
    """Of an attempt that it stepped, else of a node."""
    if attempt is not None:
        return made_fact(AttemptStepped, f"{number:026d}", at(second), attempt, **data)
    return made_fact(NodesChanged, f"{number:026d}", at(second), **data)


def heartbeat(number: int, second: float) -> ClusterHeartbeat:
    sample = NodeSample(
        node="ip-10-0-0-1", instance_id="i-1", role="worker", at=at(second), cpu_percent=12.5
    )
    return ClusterHeartbeat(
        id=f"{number:026d}", at=at(second), cluster_name="demo", cluster_arn="arn", nodes=[sample]
    )

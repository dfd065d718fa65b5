"""A run of two nodes and its cluster with one spare, with whatever a test changes of them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from tests.support.spec_parts import cluster_spec

from trainyard.domain.records import Cluster, Run
from trainyard_contracts.cluster_specs import read_cluster_spec
from trainyard_contracts.specs import RunSpec

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=timezone.utc)
CLUSTER_SPEC = cluster_spec(workers=2, spares=1)


def spec(**recovery: int) -> RunSpec:
    return RunSpec.model_validate({
        "name": "demo", "cluster": {"spec": CLUSTER_SPEC},
        "job": {"nodes": 2, "module": "trainyard_trainers.ddp"}, "recovery": recovery,
    })  # fmt: skip


def run(**changes: Any) -> Run:
    """Of a cluster of its own."""
    made = Run(
        id="run-1",
        name="demo",
        spec=spec(),
        created_at=NOW,
        updated_at=NOW,
        cluster_name="demo-1",
        owns_cluster=True,
        cluster_generation=1,
    )
    return made.model_copy(update=changes)


def cluster(**changes: Any) -> Cluster:
    """One that serves."""
    made = Cluster(
        name="demo-1",
        spec=read_cluster_spec(CLUSTER_SPEC),
        status="Ready",
        created_at=NOW,
        updated_at=NOW,
        arn="arn:c/1",
    )
    return made.model_copy(update=changes)

"""Tell every run on a cluster what happened to it."""

from __future__ import annotations

from trainyard.app.waking import wake_run
from trainyard.domain.records import Cluster, Fact
from trainyard.ports import Ports


def tell_runs(ports: Ports, cluster: Cluster, fact: Fact, message: str) -> list[str]:
    """Record the cluster's fact on its active runs and wake those that wait for it; returns their ids."""
    runs = ports.runs.on_cluster(cluster.name)
    for run in runs:
        ports.runs.record(run.id, fact, message)
        wake_run(ports, run.id, fact.type)
    return [run.id for run in runs]

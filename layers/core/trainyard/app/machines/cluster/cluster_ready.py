"""The cluster is ready: say so, and wake the runs that wait for it."""

from __future__ import annotations

from typing import Any

from trainyard.app.facts.waking import wake_run
from trainyard.app.machines.inputs import StepInput
from trainyard.ports import Ports
from trainyard_contracts.events import ClusterReady


def cluster_ready(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Mark the cluster Ready.

    Waking twice does no harm, so a crash after the mark is repaired by repeating.
    """
    cluster = ports.clusters.get(given.cluster_name)
    if cluster.generation != given.generation or cluster.status not in (
        "Creating",
        "InService",
        "Ready",
    ):
        return {"status": cluster.status}
    now = ports.clock.now()
    if cluster.status != "Ready":
        ports.clusters.put(cluster.changed(status="Ready", ready_at=now))
        ports.clusters.touch(cluster.name, used_at=now)
    for run in ports.runs.on_cluster(cluster.name):
        wake_run(ports, run.id, ClusterReady)
    return {"status": "Ready"}

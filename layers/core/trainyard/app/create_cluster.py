"""Accept a cluster that stands on its own: store it, then start the machine that makes it."""

from __future__ import annotations

from trainyard.domain import names
from trainyard.domain.records import Cluster
from trainyard.ports import Ports
from trainyard_contracts.specs import ClusterSpec


def create_cluster(ports: Ports, spec: ClusterSpec, *, name: str | None = None, owner_run: str | None = None) -> Cluster:
    """Store the cluster's record and start its machine. Raises ClusterExists."""
    now = ports.clock.now()
    named = spec.model_copy(update={"name": name}) if name else spec
    record = Cluster(name=named.name, spec=named, created_at=now, updated_at=now, owner_run=owner_run, last_used_at=now)
    stored = ports.clusters.create(record)
    start_cluster(ports, stored)
    return stored


def start_cluster(ports: Ports, cluster: Cluster) -> None:
    """Start the machine that makes the cluster; again changes nothing."""
    payload = {"clusterName": cluster.name, "generation": cluster.generation}
    ports.executions.start("cluster", names.cluster_execution(cluster.name, cluster.generation, cluster.machine_tries), payload)


def start_teardown(ports: Ports, cluster: Cluster) -> None:
    """Start the machine that deletes the cluster, unless it runs. One that ended (blocked, or dead) is followed by another."""
    name = names.cluster_execution(cluster.name, cluster.generation, cluster.machine_tries)
    if ports.executions.status("teardown", name) not in (None, "RUNNING"):
        cluster = ports.clusters.put(cluster.model_copy(update={"machine_tries": cluster.machine_tries + 1}))
        name = names.cluster_execution(cluster.name, cluster.generation, cluster.machine_tries)
    ports.executions.start("teardown", name, {"clusterName": cluster.name, "generation": cluster.generation})

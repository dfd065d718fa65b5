"""Make sure that the run's cluster is there or on its way, and wait for it."""

from __future__ import annotations

from typing import Any

from trainyard.app.audit.own_decisions import audit_own
from trainyard.app.clusters.create_cluster import create_cluster, start_cluster
from trainyard.app.facts.situation import cluster_of, decide_now
from trainyard.app.machines.inputs import StepInput, done, store_wait, superseded
from trainyard.domain import names
from trainyard.domain.records import Cluster, Run
from trainyard.ports import Ports


def ensure_cluster(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Create the run's own cluster if there is none; wait until it is ready, failed, or gone."""
    run = ports.runs.get(given.run_id)
    if superseded(ports, run, given.generation, given.token):
        return {"clusterName": run.cluster_name}
    owner = names.run_owner(run.id)
    if run.owns_cluster and run.outcome is None:
        run = _adopt(ports, run, _own_cluster(ports, run))
    store_wait(ports, owner, "cluster", given)
    decision = decide_now(ports, run)
    if decision.next != "ensure-cluster" or decision.run != run:
        done(ports, owner, given.token)
    return {"clusterName": run.cluster_name}


def _own_cluster(ports: Ports, run: Run) -> Cluster:
    """The run's cluster as it is, or a new one.

    While the cluster of an earlier life is being deleted, the run waits for the end of that.
    """
    cluster = cluster_of(ports, run)
    spec = run.spec.cluster.spec
    gone = cluster is not None and cluster.status == "Deleted" and cluster.adoption is None
    again = gone and run.cluster_generation is None
    if spec is not None and (cluster is None or again):
        made = create_cluster(
            ports,
            spec,
            otherwise=run.spec.cluster.otherwise,
            name=run.cluster_name,
            owner_run=run.id,
            by=run.created_by,
        )
        subject, key = f"cluster/{made.name}", f"{made.name}-{made.generation}"
        audit_own(ports, "cluster.create", subject, key=key, reason=f"For run {run.id}.")
        return made
    assert cluster is not None
    if cluster.status == "Pending":
        start_cluster(ports, cluster)
    return cluster


def _adopt(ports: Ports, run: Run, cluster: Cluster) -> Run:
    going = cluster.status in ("Failed", "Deleting", "Deleted")
    if going or run.cluster_generation == cluster.generation:
        return run
    return ports.runs.put(run.changed(cluster_generation=cluster.generation))

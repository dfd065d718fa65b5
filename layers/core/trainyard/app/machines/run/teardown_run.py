"""Have the run's own cluster deleted, and wait until it is."""

from __future__ import annotations

from typing import Any

from trainyard.app.clusters.cluster_tries import give_up
from trainyard.app.clusters.cluster_use import blocker_of
from trainyard.app.clusters.create_cluster import start_teardown
from trainyard.app.facts.situation import cluster_of, decide_now
from trainyard.app.machines.inputs import StepInput, done, store_wait, superseded
from trainyard.domain import names
from trainyard.domain.records import Run, TimelineEntry
from trainyard.ports import Ports


def teardown_run(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Start the teardown machine (again changes nothing) and wait for ClusterDeleted."""
    run = ports.runs.get(given.run_id)
    if superseded(ports, run, given.generation, given.token):
        return {"clusterName": run.cluster_name}
    owner = names.run_owner(run.id)
    cluster = cluster_of(ports, run)
    if cluster is not None and cluster.status not in ("Deleted", "Deleting"):
        refused = blocker_of(ports, cluster)
        run = _kept(ports, run, refused) if refused else run
    if cluster is not None and cluster.status != "Deleted" and not run.teardown_refused:
        start_teardown(ports, give_up(ports, cluster))
    store_wait(ports, owner, "teardown", given)
    if decide_now(ports, run).next != "teardown":
        done(ports, owner, given.token)
    return {"clusterName": run.cluster_name}


def _kept(ports: Ports, run: Run, reason: str) -> Run:
    """Leave the cluster, because another run uses it or it holds something.

    The sweep deletes it later, when it is idle and nothing is lost by that.
    """
    now = ports.clock.now()
    message = f"The cluster is kept for now. {reason}"
    line = TimelineEntry(
        id=f"status-kept-{run.life}", at=now, kind="status", type="ClusterKept", message=message
    )
    return ports.runs.put(run.changed(teardown_refused=reason), [line])

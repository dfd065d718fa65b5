"""Delete a cluster on request, never with the only copy of a checkpoint on it."""

from __future__ import annotations

from trainyard.app.clusters.cluster_tries import give_up
from trainyard.app.clusters.cluster_use import blocker_of
from trainyard.app.clusters.create_cluster import ask_teardown
from trainyard.app.filesystems.archives import may_be_tried_again
from trainyard.domain.errors import ClusterInUse, ConflictError, RecordUnreadable, WrongState
from trainyard.domain.records import Cluster
from trainyard.domain.teardown import holds_nothing, users_of
from trainyard.ports import Ports
from trainyard_contracts.people import Person

NEXT_STEP = (
    "Wait for people's jobs to end and export the runs with 'trainyard run export RUN' "
    "(POST /v1/runs/{id}:export); or with --force (force=true) give up the jobs and what was not "
    "exported."
)


def delete_cluster(
    ports: Ports, name: str, *, force: bool = False, by: Person | None = None
) -> Cluster:
    """Start the teardown machine.

    `force` gives up what only the cluster holds, and people's jobs on it; never an active run.
    Raises ClusterNotFound, ClusterInUse (active runs, people's jobs, results that are not
    exported), WrongState (others made it).
    """
    cluster = ports.clusters.get(name)
    if cluster.adoption is not None:
        raise WrongState(
            f"Cluster '{name}' was made by others; Trainyard does not delete it.",
            next_step=f"Release it (trainyard cluster release {name}): then nothing of Trainyard "
            "is on its nodes. Only its owners delete it.",
        )
    if cluster.status == "Deleted":
        return cluster
    cluster = may_be_tried_again(ports, cluster)
    if force and not cluster.delete_forced:
        cluster = cluster.changed(delete_forced=True)
    reason = blocker_of(ports, cluster)
    if reason is not None:
        raise ClusterInUse(reason, next_step=next_step_of(ports, cluster))
    if force:
        cluster = ports.clusters.put(cluster.changed(deleted_by=by))
    elif by is not None and cluster.deleted_by != by:
        cluster = noted(ports, cluster, by)
    cluster = give_up(ports, cluster)
    ask_teardown(ports, cluster)
    return cluster


def noted(ports: Ports, cluster: Cluster, by: Person) -> Cluster:
    """With who asked. If its machine writes at this moment, the deletion goes on without that."""
    try:
        return ports.clusters.put(cluster.changed(deleted_by=by))
    except ConflictError:
        return ports.clusters.get(cluster.name)


def next_step_of(ports: Ports, cluster: Cluster) -> str:
    """An active run is never given up by force, so force is not advised for it."""
    runs = ports.runs.on_cluster(cluster.name)
    if users := users_of(runs, never_ready=holds_nothing(cluster)):
        each = "" if len(users) == 1 else ", and each other run"
        return f"Wait until it ends, or cancel it: trainyard run cancel {users[0]}{each}."
    if ports.runs.unreadable_on(cluster.name):
        return RecordUnreadable.next_step
    return NEXT_STEP

"""Ask AWS to delete the cluster."""

from __future__ import annotations

from typing import Any

from trainyard.app.audit.own_decisions import audit_own
from trainyard.app.clusters.adopted_nodes import take_back_round
from trainyard.app.machines.inputs import StepInput
from trainyard.domain.errors import ConflictError
from trainyard.domain.records import Cluster, TimelineEntry
from trainyard.domain.states import BackendStatus
from trainyard.ports import Ports


def teardown_delete(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Delete the cluster; teardown-check made sure that it is ours and not needed.

    From one that others made only what is ours is taken back.

    After a conflict with another operation the step notes the delay and is retried.
    """
    cluster = ports.clusters.get(given.cluster_name)
    if cluster.status != "Deleting" or cluster.generation != given.generation:
        return {"asked": False}
    if cluster.adoption is not None:
        take_back_round(ports, cluster)
        return {"asked": True}
    if cluster.unarchived and cluster.delete_requested_at is None:
        return {"asked": False}  # whatever was checked before, nothing has its files
    audit_own(
        ports,
        "cluster.delete",
        f"cluster/{cluster.name}",
        key=f"{cluster.name}-{cluster.generation}",
        reason=_why(cluster),
    )
    try:
        ports.backend(cluster).delete(cluster.name)
    except ConflictError as refused:
        seen = ports.backend(cluster).describe(cluster.name)
        if seen is not None and seen.status != BackendStatus.DELETING:
            _tell_refusal(ports, cluster, seen.status, refused)
            raise
    if cluster.delete_requested_at is None:
        now = ports.clock.now()
        ports.clusters.put(cluster.changed(delete_requested_at=now))
    return {"asked": True}


def _why(cluster: Cluster) -> str:
    if cluster.deleted_by is not None:
        return f"{cluster.deleted_by.name} asked for it."
    if cluster.owner_run is not None:
        return f"Run {cluster.owner_run} needs it no more."
    return "Its idle time or its budget is over, or it failed, or an older version kept who asked."


def _tell_refusal(
    ports: Ports, cluster: Cluster, status: BackendStatus, refused: ConflictError
) -> None:
    """AWS deletes no cluster that it still makes or changes.

    The timeline says why the run does not end, once.
    """
    state = "being created" if status == BackendStatus.CREATING else "being changed"
    message = (
        f"AWS refuses to delete cluster '{cluster.name}' while it is {state}; "
        f"it is asked again until it does. ({refused.detail})"
    )
    entry_id = f"status-delete-refused-{cluster.name}-{cluster.generation}"
    for run in ports.runs.on_cluster(cluster.name):
        ports.runs.note(
            run.id,
            TimelineEntry(
                id=entry_id,
                at=ports.clock.now(),
                kind="status",
                type="DeleteRefused",
                message=message,
            ),
        )

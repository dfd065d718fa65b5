"""What a run does while its cluster is not ready."""

from __future__ import annotations

from datetime import timedelta

from trainyard.domain import ways
from trainyard.domain.capacity import next_try
from trainyard.domain.clusters import without_slurm
from trainyard.domain.decisions import Draft
from trainyard.domain.problems import brief, problem
from trainyard.domain.records import Problem
from trainyard_contracts.events import NodeUnhealthy

#: So long after its cluster's own deadline the run gives up too. The cluster's machine goes first,
#: for it knows the reason better.
GRACE_SECONDS = 120
#: Why a cluster that was ready serves no run now.
_MEANWHILE = {"Updating": "it is being changed.", "Stopped": "its fleet is stopped."}


def wait_for_cluster(draft: Draft) -> None:
    """No training without a ready cluster: wait for it, or stop with the cluster's own problem."""
    cluster = draft.cluster
    if draft.cluster_ready:
        assert cluster is not None
        if draft.run.owns_cluster and draft.run.cluster_generation != cluster.generation:
            draft.change(cluster_generation=cluster.generation)
        return
    found = _cluster_problem(draft)
    if found is None:
        _cluster_deadline(draft)
        return
    reason = brief(found)
    draft.stop("failed", reason, found)
    draft.note(
        "cluster-failed",
        "ClusterFailed",
        f"Cluster '{cluster.name if cluster else draft.run.cluster_name}': {reason}",
    )


def _cluster_problem(draft: Draft) -> Problem | None:
    """Why there will be no cluster, if known.

    A run's own cluster of an earlier life says nothing about this one.
    """
    cluster, run = draft.cluster, draft.run
    if run.owns_cluster and (cluster is None or run.cluster_generation != cluster.generation):
        return None
    if cluster is None:
        return problem("cluster-not-found", f"No cluster is named '{run.cluster_name}'.")
    if cluster.status not in ("Failed", "Deleting", "Deleted"):
        return None
    if next_try(cluster, draft.now) is not None:
        return None
    return cluster.problem or problem(
        "cluster-failed", f"It became {cluster.status} while the run needed it."
    )


def _cluster_deadline(draft: Draft) -> None:
    limit = draft.run.spec.limits.cluster_deadline_seconds
    end = draft.opened_at + timedelta(seconds=limit)
    if ways.has_ways(draft) and draft.cluster is not None:
        end = max(end, draft.cluster.try_until or end)
    end += timedelta(seconds=GRACE_SECONDS if draft.run.owns_cluster else 0)
    draft.by(end)
    if draft.now >= end:
        reason = f"Cluster '{draft.run.cluster_name}' was not ready within {limit} s."
        draft.stop("failed", reason, problem("cluster-deadline", reason))
        draft.note("cluster-deadline", "ClusterDeadline", reason)
    else:
        down = without_slurm(draft.book) if draft.cluster is not None else None
        draft.status("Provisioning", _waiting_for(draft, down))


def _waiting_for(draft: Draft, down: NodeUnhealthy | None) -> str:
    tries = draft.cluster.tries if draft.cluster is not None else []
    said = f"try {tries[-1].number} for capacity, {tries[-1].way}." if tries else ""
    waiting = f"Waiting for cluster '{draft.run.cluster_name}'"
    if draft.cluster is not None and draft.cluster.status in _MEANWHILE:
        said = _MEANWHILE[draft.cluster.status]
    why = down.detail if down is not None else said
    return f"{waiting}: {why}" if why else f"{waiting} to be ready."

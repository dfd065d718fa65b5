"""Take a cluster that others made into our care, and give it back.

What exists is never changed by that: the agent is added on its nodes, and removed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.app.clusters.cluster_use import blocker_of
from trainyard.app.clusters.create_cluster import ask_teardown, start_cluster
from trainyard.app.clusters.delete_cluster import next_step_of, noted
from trainyard.domain import foreign_clusters
from trainyard.domain.errors import (
    ClusterExists,
    ClusterInUse,
    ClusterNotFound,
    IdempotencyConflict,
    WrongState,
)
from trainyard.domain.foreign_clusters import ForeignCluster
from trainyard.domain.records import Adoption, Cluster
from trainyard.outside.adoptions import Adoptions
from trainyard.ports import Ports
from trainyard_contracts.adopting import AdoptSpec
from trainyard_contracts.people import Person


@dataclass(frozen=True)
class AdoptionPlan:
    """What an adoption would mean, with nothing done."""

    cluster: Cluster
    policy: Mapping[str, Any]
    roles: tuple[str, ...]


def adopt_cluster(
    ports: Ports,
    asked: AdoptSpec,
    idempotency_key: str | None = None,
    *,
    by: Person | None = None,
) -> Cluster:
    """Store the cluster, then start the machine that brings the agent to its nodes.

    Raises InvalidRequest (what AWS says of it), ClusterNotFound, ClusterExists (it is adopted
    already, or another record has the name), IdempotencyConflict.
    """
    record, _ = _record(ports, asked, idempotency_key)
    record = record.changed(created_by=by)
    stored = _repeated(ports, record)
    if stored is None:
        try:
            stored = ports.clusters.create(record)
        except ClusterExists:
            stored = _repeated(ports, record)  # the same request at the same moment
            if stored is None:
                raise _exists(ports, record) from None
    if stored.status == "Pending":
        start_cluster(ports, stored)
    return stored


def plan_adoption(ports: Ports, asked: AdoptSpec) -> AdoptionPlan:
    """Raises what adopt_cluster does; a cluster that is adopted already is no mistake here."""
    record, seen = _record(ports, asked, None)
    return AdoptionPlan(record, _adoptions(ports).policy(record), tuple(sorted(seen.roles)))


def release_cluster(
    ports: Ports, name: str, *, force: bool = False, by: Person | None = None
) -> Cluster:
    """Start the machine that removes the agent from its nodes; the cluster itself stays.

    `force` gives up what no export holds, and nodes that cannot be reached; never an active run.
    Raises ClusterNotFound, WrongState (we made it), ClusterInUse.
    """
    cluster = ports.clusters.get(name)
    if cluster.adoption is None:
        raise WrongState(
            f"Cluster '{name}' was made by Trainyard; only one that was adopted is released.",
            next_step=f"Delete it if nobody needs it: trainyard cluster delete {name}.",
        )
    if cluster.status == "Deleted":
        return cluster
    if force and not cluster.delete_forced:
        cluster = cluster.changed(delete_forced=True)
    going = cluster.status == "Deleting"
    if not going and (reason := blocker_of(ports, cluster)) is not None:
        raise ClusterInUse(reason, next_step=_next_step(ports, cluster))
    if force:
        cluster = ports.clusters.put(cluster.changed(deleted_by=by))
    elif by is not None and cluster.deleted_by != by:
        cluster = noted(ports, cluster, by)
    ask_teardown(ports, cluster)
    return cluster


def _next_step(ports: Ports, cluster: Cluster) -> str:
    if ports.runs.on_cluster(cluster.name) or ports.runs.unreadable_on(cluster.name):
        return next_step_of(ports, cluster)
    return (
        "Export the runs with 'trainyard run export RUN' (POST /v1/runs/{id}:export); or with "
        "--force (force=true) leave what they made where it is, on the cluster's shared filesystem."
    )


def _record(ports: Ports, asked: AdoptSpec, key: str | None) -> tuple[Cluster, ForeignCluster]:
    seen = _adoptions(ports).look(asked.named)
    if seen is None:
        raise ClusterNotFound(
            f"AWS has no cluster '{asked.named}' that could be adopted, in the stack's account and "
            "region.",
            next_step="Look at its name, and whether it lies in the region of this stack.",
        )
    foreign_clusters.check(asked, seen)
    now = ports.clock.now()
    record = Cluster(
        name=seen.name,
        spec=_adoptions(ports).spec(asked, seen),
        arn=seen.arn,
        adoption=Adoption(replace_nodes=asked.allow.replace_nodes),
        created_at=now,
        updated_at=now,
        last_used_at=now,
        idempotency_key=key,
        signs_events=True,
    )
    return record, seen


def _repeated(ports: Ports, record: Cluster) -> Cluster | None:
    """What an earlier request with the same key made, whatever became of it."""
    if record.idempotency_key is None:
        return None
    try:
        known = ports.clusters.get(record.name)
    except ClusterNotFound:
        return None
    if known.idempotency_key != record.idempotency_key:
        return None
    if known.adoption is None or known.arn != record.arn or _terms(known) != _terms(record):
        raise IdempotencyConflict(
            f"this Idempotency-Key was used for cluster '{record.name}' with another body"
        )
    return known


def _terms(cluster: Cluster) -> tuple[Any, ...]:
    """What a person asked for, without what AWS says of the cluster and what may change."""
    spec, adoption = cluster.spec, cluster.adoption
    allowed = adoption is not None and adoption.replace_nodes
    return spec.shared_path, spec.environment, spec.job_secrets, spec.job_inputs, allowed


def _exists(ports: Ports, record: Cluster) -> ClusterExists:
    known = ports.clusters.get(record.name)
    if known.adoption is None:
        return ClusterExists(
            f"a cluster named '{record.name}' was made here; it is not adopted besides",
        )
    going = known.status == "Deleting"
    return ClusterExists(
        f"cluster '{record.name}' is {'being released' if going else 'adopted already'}",
        next_step="Wait until it is Released, and ask again."
        if going
        else f"Use it as it is (trainyard cluster show {record.name}), or release it first to "
        "adopt it on other terms.",
    )


def _adoptions(ports: Ports) -> Adoptions:
    """Of the one backend whose clusters can be adopted."""
    every = [backend.adoptions for backend in ports.backends.values()]
    return next(found for found in every if found is not None)

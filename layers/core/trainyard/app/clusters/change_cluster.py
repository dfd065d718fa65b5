"""Accept a change of a cluster that is there: another spec, or its fleet stopped or started.

The record says what is wanted; the sweep does it.
"""

from __future__ import annotations

from trainyard.app.clusters.cluster_use import used_by
from trainyard.app.clusters.create_cluster import check_spec
from trainyard.domain.errors import (
    ClusterInUse,
    ConflictError,
    FieldError,
    InvalidRequest,
    RetryableError,
    WrongState,
)
from trainyard.domain.records import Cluster, ClusterChange
from trainyard.domain.words import who
from trainyard.outside.changes import ChangePlan, Changes
from trainyard.ports import Ports
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.people import Person

_WAIT_OR_CANCEL = (
    "Wait until they ended, or cancel them; an update waits by itself if the spec says so "
    "(updateWhileUsed: wait)."
)


def update_cluster(
    ports: Ports, name: str, spec: ClusterSpec, *, by: Person | None = None
) -> Cluster:
    """Store that the cluster is to have this spec; the same again answers with the cluster.

    What the backend refuses is refused now, if it answers in time and is at nothing else, and else
    by the sweep: a cluster is Ready a moment before its stack is made. Raises ClusterNotFound,
    InvalidRequest, WrongState, ClusterInUse, BackendRejected.
    """
    cluster = ports.clusters.get(name)
    wanted = _wanted(ports, cluster, spec)
    if (known := _under_way(ports, cluster, wanted, by)) is not None:
        return known
    _check_use(ports, cluster, wanted)
    try:
        _changes(ports, cluster).plan(cluster, wanted)
    except (RetryableError, ConflictError):
        pass  # the sweep asks again before anything is changed
    return _stored(ports, cluster, spec=wanted, fleet=_fleet_of(cluster), by=by)


def plan_update(ports: Ports, name: str, spec: ClusterSpec) -> tuple[ChangePlan, list[str]]:
    """What update_cluster would do, and what speaks against it now. Raises what it raises."""
    cluster = ports.clusters.get(name)
    wanted = _wanted(ports, cluster, spec)
    _check_status(cluster)
    users = used_by(ports, cluster)
    return _changes(ports, cluster).plan(cluster, wanted), [users] if users else []


def stop_fleet(
    ports: Ports, name: str, *, force: bool = False, by: Person | None = None
) -> Cluster:
    """Store that the cluster's workers are to be stopped. Raises WrongState, ClusterInUse.

    `force` gives up people's jobs; never an active run.
    """
    cluster = ports.clusters.get(name)
    _changes(ports, cluster)
    if _wants_fleet(cluster, "stopped"):
        return cluster
    _check_status(cluster)
    if (users := used_by(ports, cluster, forced=force)) is not None:
        raise ClusterInUse(
            f"{users} Its fleet is not stopped under it.",
            next_step="Wait until they ended, or cancel them. With --force (force=true) people's "
            "jobs are ended, never a run.",
        )
    return _stored(ports, cluster, fleet="stopped", forced=force, by=by)


def start_fleet(ports: Ports, name: str, *, by: Person | None = None) -> Cluster:
    """Store that the cluster's workers are to be started. Raises WrongState."""
    cluster = ports.clusters.get(name)
    _changes(ports, cluster)
    if _wants_fleet(cluster, "running"):
        return cluster
    _check_status(cluster)
    return _stored(ports, cluster, fleet="running", by=by)


def _wants_fleet(cluster: Cluster, fleet: str) -> bool:
    change = cluster.change
    if change is not None and not change.over:
        return change.spec is None and change.fleet == fleet
    return cluster.status == ("Stopped" if fleet == "stopped" else "Ready")


def _under_way(
    ports: Ports, cluster: Cluster, wanted: ClusterSpec, by: Person | None
) -> Cluster | None:
    """The cluster as it is, where this very change is asked for already or nothing changes.

    The spec that it has takes back an update that still waits.
    """
    change, same = cluster.change, wanted == cluster.spec
    if change is None or change.over:
        _check_status(cluster)
        return cluster if same else None
    if change.spec == wanted:
        return cluster
    if change.state == "waiting" and change.spec is not None and same:
        now = ports.clock.now()
        words = f"{who(by)} took it back before it began."
        ended = change.changed(state="withdrawn", ended_at=now, reason=words)
        return ports.clusters.put(cluster.changed(change=ended))
    _check_status(cluster)
    return None


def _check_status(cluster: Cluster) -> None:
    """Refuse a cluster that is being made, changed or deleted."""
    change = cluster.change
    if change is not None and not change.over:
        back = (
            " It still waits: the spec that the cluster has takes it back."
            if change.state == "waiting"
            else ""
        )
        raise WrongState(
            f"Cluster '{cluster.name}' is being changed already ({change.state}).",
            next_step=f"Follow it with trainyard cluster show {cluster.name}, and ask again when "
            f"it is over.{back}",
        )
    if cluster.status not in ("Ready", "Stopped"):
        raise WrongState(
            f"Cluster '{cluster.name}' is {cluster.status}; only one that is Ready or Stopped can "
            "be changed.",
            next_step=f"Look at it with trainyard cluster show {cluster.name}, and ask again when "
            "it is Ready.",
        )


def _check_use(ports: Ports, cluster: Cluster, wanted: ClusterSpec) -> None:
    if wanted.waits_for_users or (users := used_by(ports, cluster)) is None:
        return
    raise ClusterInUse(f"{users} It is not updated under them.", next_step=_WAIT_OR_CANCEL)


def _changes(ports: Ports, cluster: Cluster) -> Changes:
    found = ports.backend(cluster).changes
    if found is None:
        raise WrongState(
            f"Cluster '{cluster.name}' lives on backend '{cluster.backend}', whose clusters cannot "
            "be changed, and have no fleet that is stopped or started.",
            next_step="Make another cluster with the spec that you want (trainyard cluster create "
            f"FILE), then delete this one: trainyard cluster delete {cluster.name}.",
        )
    return found


def _wanted(ports: Ports, cluster: Cluster, spec: ClusterSpec) -> ClusterSpec:
    """What the cluster is to be: its own spec with the fields that may change. InvalidRequest."""
    _changes(ports, cluster)
    have = cluster.spec
    asked = have.as_asked()
    fixed = [
        FieldError(field.alias or name, _words(name, cluster))
        for name, field in type(have).model_fields.items()
        if name not in have.changeable
        and getattr(spec, name, None) != getattr(asked, name)
        and not (name == "labels" and spec.labels == cluster.labels)
    ]
    if fixed:
        detail = "; ".join(f"{one.field}: {one.message}" for one in fixed)
        raise InvalidRequest(detail, errors=fixed)
    check_spec(ports, spec)
    wanted: ClusterSpec = have.changed(**{name: getattr(spec, name) for name in have.changeable})
    if (lost := have.lost_by(wanted)) is not None:
        error = FieldError(lost.field, lost.words)
        raise InvalidRequest(f"{lost.field}: {lost.words}", errors=[error])
    return wanted


def _words(name: str, cluster: Cluster) -> str:
    if name == "name":
        return f"must be '{cluster.name}', the cluster that is updated"
    if name == "labels":
        return (
            f"are changed one by one (trainyard cluster label {cluster.name} KEY=VALUE, PATCH); "
            "give those that it has now, or those it was made with"
        )
    if name == "capacity":
        return (
            "names ways to make a cluster, and this one is made; remove it, and give the rest as "
            f"the cluster has it (trainyard cluster show {cluster.name} --json)"
        )
    return (
        "cannot be changed in a cluster that is there; give what it has (trainyard cluster show "
        f"{cluster.name} --json), or make another cluster"
    )


def _fleet_of(cluster: Cluster) -> str:
    return "stopped" if cluster.status == "Stopped" else "running"


def _stored(
    ports: Ports,
    cluster: Cluster,
    *,
    fleet: str,
    spec: ClusterSpec | None = None,
    forced: bool = False,
    by: Person | None = None,
) -> Cluster:
    change = ClusterChange.model_validate({
        "spec": spec,
        "fleet": fleet,
        "was": cluster.status,
        "asked_at": ports.clock.now(),
        "forced": forced,
        "asked_by": by,
    })  # fmt: skip
    stored = ports.clusters.put(cluster.changed(change=change))
    ports.clusters.touch(cluster.name, used_at=ports.clock.now())
    return stored

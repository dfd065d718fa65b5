"""Accept a cluster that belongs to no run: store it, then start the machine that makes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainyard.app.clusters import buckets
from trainyard.app.clusters.cluster_tries import in_its_first_way
from trainyard.app.clusters.zones import check_zones
from trainyard.app.filesystems import attach, reached
from trainyard.domain import names
from trainyard.domain.errors import (
    ClusterExists,
    ClusterNameTaken,
    ClusterNotFound,
    FieldError,
    IdempotencyConflict,
    InvalidRequest,
)
from trainyard.domain.records import Cluster
from trainyard.ports import Ports
from trainyard_contracts.cluster_base import ClusterBase
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.inputs import S3Prefix
from trainyard_contracts.people import Person


def create_cluster(
    ports: Ports,
    spec: ClusterSpec,
    *,
    otherwise: Sequence[ClusterSpec] = (),
    name: str | None = None,
    owner_run: str | None = None,
    idempotency_key: str | None = None,
    by: Person | None = None,
) -> Cluster:
    """Store the cluster's record and start its machine.

    The same key and spec again answer with the same cluster. Raises InvalidRequest, ClusterExists,
    IdempotencyConflict.
    """
    if owner_run is None:
        check_standing(spec)
    for one in (spec, *otherwise):
        check_spec(ports, one)
    named, *others = [one.changed(name=name) if name else one for one in (spec, *otherwise)]
    record = _record(ports, named, [], owner_run, idempotency_key).changed(otherwise=others)
    stored = _repeated(ports, record)
    if stored is None:
        for one in (named, *others):
            check_archive(ports, one.archive, of=one.name)
        _check_theirs(ports, named)
        given, *others = [attach.attached(ports, one) for one in (named, *others)]
        warnings = [*attach.warnings(ports, named), *buckets.warnings(ports, named)]
        if owner_run is None:  # of a run's own cluster its submission told
            reached.check_reached(ports, named, "")
            warnings += reached.warnings(ports, named)
        record = _record(ports, given, warnings, owner_run, idempotency_key)
        record = in_its_first_way(ports, record.changed(otherwise=others, created_by=by))
        try:
            stored = ports.clusters.create(record)
        except ClusterExists:
            stored = _repeated(ports, record)  # the same request at the same moment
            if stored is None:
                raise
    if stored.status == "Pending":
        start_cluster(ports, stored)
    return stored


def _check_theirs(ports: Ports, spec: ClusterSpec) -> None:
    """Refuse the name of a cluster that others made, that was adopted, and that is there.

    Raises ClusterNameTaken.
    """
    try:
        known = ports.clusters.get(spec.name)
    except ClusterNotFound:
        return
    if known.adoption is None or known.status != "Deleted":
        return
    seen = ports.backend(known).describe(known.name)
    if seen is not None and seen.arn == known.arn:
        raise ClusterNameTaken(
            f"cluster '{known.name}' was made by others, was adopted and released, and is there",
            next_step="Choose another name; or take it in again: trainyard cluster adopt "
            f"{known.name}.",
        )


def _record(
    ports: Ports, spec: ClusterSpec, warnings: list[str], owner_run: str | None, key: str | None
) -> Cluster:
    now = ports.clock.now()
    return Cluster(
        name=spec.name,
        spec=spec,
        labels=spec.labels,
        warnings=warnings,
        created_at=now,
        updated_at=now,
        owner_run=owner_run,
        last_used_at=now,
        idempotency_key=key,
        signs_events=True,
    )


def check_standing(spec: ClusterSpec) -> None:
    """Refuse a cluster of no run whose nodes come with jobs: it would be a name and no node.

    Raises InvalidRequest.
    """
    if spec.nodes_come_with_jobs:
        raise _refused(
            "backend",
            f"a cluster of backend '{spec.backend}' has nodes only while a job runs; submit a run "
            "with cluster.spec (POST /v1/runs)",
        )


def check_spec(ports: Ports, spec: ClusterSpec, prefix: str = "") -> None:
    """Refuse what this stack cannot make, or must not.

    Raises InvalidRequest; fields begin with `prefix`.
    """
    _check_region(ports, spec, prefix)
    _check_network(ports, spec, prefix)
    _check_mounts(ports, spec, prefix)
    check_zones(ports, spec, prefix)


def _check_region(ports: Ports, spec: ClusterSpec, prefix: str) -> None:
    """Refuse another region: nodes there would report to nobody, and reach nothing of the stack."""
    if spec.region not in (None, ports.config.region):
        raise _refused(
            f"{prefix}region",
            f"this stack makes clusters in {ports.config.region} only, where it is; remove the "
            f"field, or ask the API of a stack in {spec.region}",
        )


def _check_network(ports: Ports, spec: ClusterSpec, prefix: str) -> None:
    """Refuse a cluster without a network of its own or the stack's: it reaches no filesystem."""
    if not ports.config.has_network and (lacking := spec.lacks_network()) is not None:
        raise _refused(f"{prefix}{lacking.field}", lacking.words)


def _check_mounts(ports: Ports, spec: ClusterSpec, prefix: str) -> None:
    """Refuse the stack's own bucket: it would show the nodes the runs of other clusters."""
    for name, bucket in spec.read_buckets().items():
        if bucket == ports.config.data_bucket:
            raise _refused(
                f"{prefix}{name}",
                f"'{bucket}' is Trainyard's own bucket, with every cluster's runs; "
                "copy what is needed to another one",
            )


def check_archive(ports: Ports, archive: str, *, of: str = "", prefix: str = "") -> None:
    """Refuse an archive that another cluster will export to, for one would cover the other's.

    `of` is the name of the cluster whose it is, if it has one already. Raises InvalidRequest; the
    field begins with `prefix`.
    """
    if not archive:
        return
    mine = S3Prefix.of(archive)
    for other, known in _archives(ports):
        theirs = S3Prefix.of(known)
        if other.name != of and (mine.holds(theirs) or theirs.holds(mine)):
            raise _refused(
                f"{prefix}sharedStorage.fsx.archive",
                f"cluster '{other.name}' has {theirs} for its archive; use another prefix, or "
                "delete that cluster first",
            )


def _archives(ports: Ports) -> Iterator[tuple[Cluster, str]]:
    """Of each cluster that is there, in every way in which it may be made."""
    for cluster in ports.clusters.active():
        for archive in sorted({one.archive for one in cluster.possible_specs} - {""}):
            yield cluster, archive


def _refused(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {message}", errors=[FieldError(field, message)])


def _repeated(ports: Ports, record: Cluster) -> Cluster | None:
    """The cluster that an earlier request with the same key made, whatever became of it."""
    if record.idempotency_key is None:
        return None
    try:
        known = ports.clusters.get(record.name)
    except ClusterNotFound:
        return None
    if known.idempotency_key != record.idempotency_key:
        return None
    if _asked(known) != _asked(record):
        field = FieldError(
            "idempotency-key",
            "was used with another body for this cluster; use a new one for a new request",
        )
        raise IdempotencyConflict(
            f"this Idempotency-Key was used for cluster '{record.name}' with another body",
            errors=[field],
        )
    return known


def _asked(cluster: Cluster) -> list[ClusterBase]:
    """What a person wrote."""
    return [one.as_asked() for one in (cluster.asked or cluster.spec, *cluster.otherwise)]


def start_cluster(ports: Ports, cluster: Cluster) -> None:
    """Start the machine that makes the cluster; again changes nothing."""
    payload = {"clusterName": cluster.name, "generation": cluster.generation}
    ports.executions.start(
        "cluster",
        names.cluster_execution(cluster.name, cluster.generation, cluster.machine_tries),
        payload,
    )


def ask_teardown(ports: Ports, cluster: Cluster) -> None:
    """Start the machine that deletes the cluster, now or once an earlier one has ended.

    One that runs may be about to end without a deletion ("blocked"). The record says that another
    was asked for, and the sweep begins it.
    """
    name = names.cluster_execution(cluster.name, cluster.generation, cluster.machine_tries)
    ending = cluster.status != "Deleting" and not cluster.delete_asked
    if ending and ports.executions.status("teardown", name) == "RUNNING":
        cluster = ports.clusters.put(cluster.changed(delete_asked=True))
    start_teardown(ports, cluster)


def start_teardown(ports: Ports, cluster: Cluster) -> None:
    """Start the machine that deletes the cluster, unless it runs.

    One that ended (blocked, or dead) is followed by another.
    """
    name = names.cluster_execution(cluster.name, cluster.generation, cluster.machine_tries)
    if ports.executions.status("teardown", name) not in (None, "RUNNING"):
        cluster = ports.clusters.put(cluster.changed(machine_tries=cluster.machine_tries + 1))
        name = names.cluster_execution(cluster.name, cluster.generation, cluster.machine_tries)
    ports.executions.start(
        "teardown", name, {"clusterName": cluster.name, "generation": cluster.generation}
    )

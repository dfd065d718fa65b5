"""Accept a run: one conditional write, then StartExecution.

Both may be repeated, so a client's retry repairs a crash between them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from trainyard.app.clusters import buckets
from trainyard.app.clusters.cluster_use import resting, stays_stopped
from trainyard.app.clusters.create_cluster import check_archive, check_spec
from trainyard.app.filesystems import reached
from trainyard.app.filesystems.attach import mounted
from trainyard.app.filesystems.attach import warnings as filesystem_warnings
from trainyard.app.filesystems.reached import check_reached
from trainyard.app.runs.after import check_after
from trainyard.app.runs.approvals import asked_of
from trainyard.app.runs.budgets import check_budget, hourly_of
from trainyard.app.runs.code_checks import check_code
from trainyard.app.runs.inputs import check_inputs
from trainyard.app.runs.start_from import check_start
from trainyard.app.runs.team_budgets import check_shared, counting
from trainyard.domain import names, result_warnings
from trainyard.domain.capacity import next_try
from trainyard.domain.errors import (
    ClusterInUse,
    ClusterNotFound,
    FieldError,
    InvalidRequest,
    RunNotFound,
    UploadIncomplete,
    WrongState,
)
from trainyard.domain.records import ArrayMember, Cluster, Code, Run, Start
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.cluster_base import ClusterBase
from trainyard_contracts.people import Person
from trainyard_contracts.specs import JobSpec, RunSpec


def submit_run(
    ports: Ports,
    spec: RunSpec,
    *,
    idempotency_key: str | None = None,
    by: Person | None = None,
) -> Run:
    """Store the run and start its machine.

    Raises InvalidRequest, ClusterNotFound, ClusterInUse (being deleted), UploadIncomplete,
    IdempotencyConflict.
    """
    try:
        cluster = check_cluster(ports, spec)
        code = check_code(ports, spec)
        start = check_start(ports, spec, cluster)
        check_after(ports, spec)
        data = check_inputs(ports, spec)
    except (ClusterNotFound, ClusterInUse, InvalidRequest, UploadIncomplete, WrongState):
        # A client that retries after a lost answer gets its run back, whatever became of the
        # run's cluster and upload since. Where nothing is refused, `create` finds the run by the
        # key.
        stored = _known(ports, spec, idempotency_key)
        if stored is None:
            raise
    else:
        stored = ports.runs.create(
            new_run(ports, spec, code, start, data, by=by),
            idempotency_key=idempotency_key,
            body_hash=body_hash(spec),
        )
    if not stored.terminal:
        start_run(ports, stored)
    return stored


def submit_scheduled(
    ports: Ports, specs: Mapping[str, RunSpec], *, schedule: str, by: Person | None = None
) -> None:
    """The runs of one time of a schedule, by their ids; the same id again is the same run.

    All are looked at before the first is made. Each comes after those of its `after`. Raises what
    submit_run raises.
    """
    found = [_scheduled(ports, spec, run_id, schedule, by) for run_id, spec in specs.items()]
    for run in found:  # one that is there already is given back
        stored = ports.runs.create(run, idempotency_key=None, body_hash="")
        if not stored.terminal:
            start_run(ports, stored)


def _scheduled(ports: Ports, spec: RunSpec, run_id: str, schedule: str, by: Person | None) -> Run:
    try:
        return ports.runs.get(run_id)
    except RunNotFound:
        cluster = check_cluster(ports, spec)
        code, start = check_code(ports, spec), check_start(ports, spec, cluster)
        data = check_inputs(ports, spec)
        return new_run(ports, spec, code, start, data, by=by, run_id=run_id, schedule=schedule)


def _known(ports: Ports, spec: RunSpec, idempotency_key: str | None) -> Run | None:
    if idempotency_key is None:
        return None
    return ports.runs.by_key(idempotency_key, body_hash(spec), at=ports.clock.now())


def new_run(
    ports: Ports,
    spec: RunSpec,
    code: Code | None,
    start: Start | None,
    data: dict[str, Code],
    *,
    by: Person | None = None,
    run_id: str | None = None,
    array: ArrayMember | None = None,
    schedule: str = "",
) -> Run:
    """The record of a run; one whose id is given is the same run, however often it is made.

    `by` asked for it, and stays who did when it is given to somebody else.
    """
    now = ports.clock.now()
    run_id = run_id or names.run_id(ports.ids.ulid())
    cluster = spec.cluster.spec
    name = names.cluster_for_run(cluster.name, run_id) if cluster else str(spec.cluster.name)
    approval = asked_of(ports, spec, run_id, 1, body_hash(spec), by)
    return Run(
        id=run_id,
        name=spec.name,
        spec=spec,
        labels=spec.labels,
        priority=spec.priority,
        status="Waiting" if spec.after or approval else "Pending",
        created_at=now,
        created_by=by,
        updated_at=now,
        opened_at=now,
        cluster_name=name,
        objects_prefix=places.run_prefix(places.runs_prefix(name), run_id),
        owns_cluster=cluster is not None,
        hourly_usd=hourly_of(ports, spec) if _bounded(ports, spec, name) else None,
        code=code,
        start_from=start,
        data=data,
        array=array,
        schedule=schedule,
        approval=approval,
        reason="Accepted; its state machine starts.",
        warnings=[*result_warnings.warnings(spec), *_of_its_cluster(ports, spec)],
    )


def _bounded(ports: Ports, spec: RunSpec, cluster_name: str) -> bool:
    """Whether a budget bounds it, its own or one that it shares."""
    return spec.budget is not None or bool(counting(ports, spec.labels, cluster_name))


def _of_its_cluster(ports: Ports, spec: RunSpec) -> list[str]:
    given = [one for one in (spec.cluster.spec, *spec.cluster.otherwise) if one is not None]
    return [
        words
        for one in given
        for words in (
            *filesystem_warnings(ports, one),
            *reached.warnings(ports, one),
            *buckets.warnings(ports, one),
        )
    ]


def start_run(ports: Ports, run: Run) -> None:
    """Start the run's machine; the same generation again changes nothing."""
    payload = {"runId": run.id, "generation": run.generation}
    ports.executions.start("run", names.run_execution(run.id, run.generation), payload)


def body_hash(spec: RunSpec) -> str:
    """Hash of the meaning of a request: the same request written differently is the same.

    Without defaults, so that a field which a later version adds does not change it.
    """
    asked = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    text = json.dumps(asked, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def check_cluster(ports: Ports, spec: RunSpec) -> Cluster | None:
    """Refuse a run whose cluster cannot serve it.

    A named cluster may be unknown, on its way out, too small, or of the wrong kind; a run's own
    cluster may have no network.
    """
    if spec.cluster.spec is not None:
        others = {f"cluster.otherwise.{at}.": one for at, one in enumerate(spec.cluster.otherwise)}
        for prefix, one in {"cluster.spec.": spec.cluster.spec, **others}.items():
            check_spec(ports, one, prefix)
            check_archive(ports, one.archive, prefix=prefix)
            mounted(ports, one, prefix)
            check_reached(ports, one, prefix)
            _check_job(ports, one, prefix, spec.job)
        check_budget(ports, spec, None)
        check_shared(ports, spec, None)
        return None
    assert spec.cluster.name is not None
    try:
        cluster = ports.clusters.get(spec.cluster.name)
    except ClusterNotFound as missing:
        field = FieldError(
            "cluster.name",
            f"no cluster is named '{spec.cluster.name}'; "
            "list clusters with 'trainyard cluster ls' (GET /v1/clusters), or give cluster.spec",
        )
        named = ClusterNotFound(missing.detail, errors=[field]).of_name(spec.cluster.name)
        raise named from None
    going = cluster.status in ("Failed", "Deleting", "Deleted")
    if going and next_try(cluster, ports.clock.now()) is None:
        raise ClusterInUse(
            f"Cluster '{cluster.name}' is {cluster.status}; it takes no new run.",
            next_step="Name a cluster that is Ready, "
            "or give cluster.spec so that one is made for this run.",
        )
    if stays_stopped(cluster) and (rests := resting(cluster)) is not None:
        raise WrongState(rests[0], next_step=f"{rests[1]}.")
    _check_fit(cluster, spec)
    check_budget(ports, spec, cluster)
    check_shared(ports, spec, cluster)
    return cluster


def _check_job(ports: Ports, spec: ClusterBase, prefix: str, job: JobSpec) -> None:
    """Refuse what no job can be made of, in whatever way; of a cluster its creation shows it."""
    if not spec.nodes_come_with_jobs:
        return
    now = ports.clock.now()
    for one in [way.spec for way in spec.ways] or [spec]:
        record = Cluster.model_validate(
            {"name": one.name, "spec": one, "created_at": now, "updated_at": now}
        )
        try:
            ports.backend(record).plan(record, tried=False, job=job)
        except InvalidRequest as refused:
            fields = [FieldError(_asked_at(e.field, prefix), e.message) for e in refused.errors]
            words = _asked_at(refused.detail, prefix)
            raise InvalidRequest(words, errors=fields) from None


def _asked_at(field: str, prefix: str) -> str:
    """Where a person wrote what a backend calls so: its own part of the spec, or the job."""
    return f"{'job.' if field.startswith('hyperparameters') else prefix}{field}"


def _check_fit(cluster: Cluster, spec: RunSpec) -> None:
    if unfit := spec.unfit(cluster.spec):
        field, message = unfit
        raise InvalidRequest(f"{field}: {message}", errors=[FieldError(field, message)])

"""Accept an array: one conditional write, then its first members; the sweep goes on from there."""

from __future__ import annotations

import hashlib
import json

from trainyard.app.runs.advance_array import advance_array
from trainyard.app.runs.after import check_after
from trainyard.app.runs.code_checks import check_code
from trainyard.app.runs.inputs import check_inputs
from trainyard.app.runs.start_from import check_start
from trainyard.app.runs.submit_run import check_cluster
from trainyard.domain import names
from trainyard.domain.array_records import RunArray
from trainyard.domain.errors import ArrayNotFound, FieldError, IdempotencyConflict
from trainyard.ports import Ports
from trainyard_contracts.arrays import ArraySpec
from trainyard_contracts.people import Person


def submit_array(
    ports: Ports,
    spec: ArraySpec,
    *,
    idempotency_key: str | None = None,
    by: Person | None = None,
) -> RunArray:
    """Store the array and begin its first members.

    The same key and spec again answer with the same array, whenever that is. Raises what
    submit_run raises, before anything is stored.
    """
    array_id = _id(ports, idempotency_key)
    known = _known(ports, array_id, spec)
    if known is None:
        known = ports.arrays.create(_new(ports, array_id, spec).changed(created_by=by))
    return advance_array(ports, known.id)


def _id(ports: Ports, idempotency_key: str | None) -> str:
    if idempotency_key is None:
        return names.array_id(ports.ids.ulid())
    return names.keyed_id("arr", idempotency_key)


def _known(ports: Ports, array_id: str, spec: ArraySpec) -> RunArray | None:
    try:
        known = ports.arrays.get(array_id)
    except ArrayNotFound:
        return None
    if known.body_hash != _hash(spec):
        field = FieldError(
            "idempotency-key", "was used with another body; use a new one for a new request"
        )
        raise IdempotencyConflict(
            "this Idempotency-Key was used for an array with another body", errors=[field]
        )
    return known


def _new(ports: Ports, array_id: str, spec: ArraySpec) -> RunArray:
    """What all members have in common is looked at once; fields are named below `run`."""
    run = spec.run
    cluster = check_cluster(ports, run)
    code = check_code(ports, run)
    start = check_start(ports, run, cluster)
    check_after(ports, run)
    data = check_inputs(ports, run)
    made = run.cluster.spec
    shared = made is not None and not made.nodes_come_with_jobs
    name = names.cluster_for_run(made.name, array_id) if made and shared else run.cluster.name
    now = ports.clock.now()
    return RunArray(
        id=array_id,
        spec=spec,
        created_at=now,
        updated_at=now,
        body_hash=_hash(spec),
        cluster_name=name or "",
        owns_cluster=shared,
        code=code,
        start_from=start,
        data=data,
    )


def _hash(spec: ArraySpec) -> str:
    asked = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

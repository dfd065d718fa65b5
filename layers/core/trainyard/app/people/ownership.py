"""Whose a thing is, and how it comes to belong to somebody else or to be shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from trainyard.domain.array_records import RunArray
from trainyard.domain.errors import (
    ConflictError,
    FieldError,
    InvalidRequest,
    RecordUnreadable,
    RunNotFound,
    ScheduleNotFound,
)
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.people import Thing
from trainyard.domain.records import Cluster, Run, TimelineEntry
from trainyard.domain.schedule_records import Schedule
from trainyard.domain.webhook_records import Webhook
from trainyard.domain.words import listed
from trainyard.ports import Ports
from trainyard_contracts.people import Person

Owned = TypeVar("Owned", Run, Cluster, Filesystem, RunArray, Schedule)
#: Machines write the same records: so often a change of ours is tried again.
_TRIES = 8


def load(ports: Ports, kind: str, name: str) -> Any:
    """What has an owner, by its kind. Raises the error of its kind that is not found."""
    found = _store(ports, kind).get(name)
    if isinstance(found, Schedule) and found.status == "Deleted":
        raise ScheduleNotFound.of(name)
    return found


def _store(ports: Ports, kind: str) -> Any:
    stores = {
        "run": ports.runs,
        "cluster": ports.clusters,
        "filesystem": ports.filesystems,
        "array": ports.arrays,
        "schedule": ports.schedules,
    }
    return stores[kind]


def thing_of(
    ports: Ports, record: Run | Cluster | Filesystem | RunArray | Schedule | Webhook
) -> Thing:
    """A run's own cluster is that of the run's owner, and shared with whom the run is."""
    thing = Thing.of(record)
    if not isinstance(record, Cluster) or record.owner_run is None:
        return thing
    try:
        run = Thing.of(ports.runs.get(record.owner_run))
    except (RunNotFound, RecordUnreadable):
        return thing
    return Thing("cluster", record.name, run.owner, run.shared_with, of_run=run.name)


def shared(ports: Ports, record: Owned, patterns: Sequence[str]) -> Owned:
    """With whom it is shared from now on."""
    _check_not_of_a_run(record)
    return _put(ports, record, shared_with=list(patterns))


def given_to(ports: Ports, record: Owned, to: Person, *, by: Person) -> Owned:
    """Its new owner; a run's timeline says so."""
    _check_not_of_a_run(record)
    before = record.created_by
    after = _put(ports, record, created_by=to)
    if isinstance(after, Run) and before != to:
        was = f" It was {before.name}'s." if before is not None else ""
        words = f"{by.name} gave the run to {to.name} ({to.arn}).{was}"
        line = TimelineEntry(
            id=f"transfer-{after.version}",
            at=ports.clock.now(),
            kind="fact",
            type="RunTransferred",
            message=words,
        )
        ports.runs.note(after.id, line)
    return after


def _check_not_of_a_run(record: Run | Cluster | Filesystem | RunArray | Schedule) -> None:
    if isinstance(record, Cluster) and record.owner_run is not None:
        words = (
            f"cluster '{record.name}' belongs with its run {record.owner_run}; give or share that"
        )
        raise InvalidRequest(f"clusterName: {words}", errors=[FieldError("clusterName", words)])


def _put(ports: Ports, record: Owned, **change: Any) -> Owned:
    kind = Thing.of(record).kind
    store = _store(ports, kind)
    fresh = record
    for _ in range(_TRIES):
        if fresh.changed(**change) == fresh:
            return fresh
        try:
            stored: Owned = store.put(fresh.changed(**change))
            return stored
        except ConflictError:
            fresh = load(ports, kind, Thing.of(record).name)
    raise ConflictError(f"{kind} {listed([Thing.of(record).name])} is written all the time")

"""Schedules in the table (layout: `table.py`)."""

from __future__ import annotations

import builtins

from trainyard.aws import listing
from trainyard.aws.items import Item, Value, number, pack, readable, record_of, stamp, text
from trainyard.aws.table import Table
from trainyard.domain import errors
from trainyard.domain.listing import Wanted
from trainyard.domain.schedule_records import Schedule
from trainyard.outside.clock import Clock
from trainyard.outside.pages import Page

#: One that is deleted stays in the first until EventBridge Scheduler surely has it no more.
_ACTIVE, _DELETED = "schedules#active", "schedules#deleted"
_SORT_KEY = "schedule"


class TableSchedules:
    """The port `Schedules` on DynamoDB."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table, self._clock = table, clock

    def create(self, schedule: Schedule) -> Schedule:
        item = self._table.get(_pk(schedule.name), _SORT_KEY)
        before = None if item is None else _read(item)
        if before is not None and before.status != "Deleted":
            raise errors.ScheduleExists(f"a schedule named '{schedule.name}' exists")
        made, condition = schedule, "attribute_not_exists(pk)"
        values: dict[str, Value] | None = None
        if before is not None:
            made = schedule.changed(generation=before.generation + 1, version=before.version + 1)
            condition, values = "version = :before", {":before": number(before.version)}
        if not self._table.put(_item(made), condition=condition, values=values):
            raise errors.ScheduleExists(
                f"a schedule named '{schedule.name}' was created at the same moment"
            )
        return made

    def get(self, name: str) -> Schedule:
        item = self._table.get(_pk(name), _SORT_KEY)
        if item is None:
            raise errors.ScheduleNotFound.of(name)
        return _read(item)

    def put(self, schedule: Schedule) -> Schedule:
        after = schedule.changed(version=schedule.version + 1, updated_at=self._clock.now())
        values = {":before": number(schedule.version)}
        if not self._table.put(_item(after), condition="version = :before", values=values):
            raise errors.ConflictError(
                f"schedule {schedule.name} was changed by someone else since version "
                f"{schedule.version}"
            )
        return after

    def list(self, *, limit: int, token: str | None) -> Page[Schedule]:
        wanted = Wanted(statuses=frozenset({"Active", "Paused"}))
        return listing.search(self._table, [_ACTIVE], _read, wanted, limit=limit, token=token)

    def active(self) -> builtins.list[Schedule]:
        return [schedule for _, schedule in readable(_read, self._table.listed(_ACTIVE))]


def _read(item: Item) -> Schedule:
    return record_of(Schedule, item)


def _pk(name: str) -> str:
    return f"schedule#{name}"


def _item(schedule: Schedule) -> Item:
    return {
        "pk": text(_pk(schedule.name)),
        "sk": text(_SORT_KEY),
        "doc": pack(schedule),
        "version": number(schedule.version),
        "gsi1pk": text(_DELETED if schedule.over else _ACTIVE),
        "gsi1sk": text(f"{stamp(schedule.created_at)}#{schedule.name}"),
        **listing.attributes(
            name=schedule.name,
            status=schedule.status,
            cluster="",
            created_by=schedule.created_by,
        ),
    }

"""What people ask of schedules."""

from __future__ import annotations

from trainyard.app.people.audited import Audited
from trainyard.app.runs.schedules import (
    create_schedule,
    delete_schedule,
    pause_schedule,
    resume_schedule,
)
from trainyard.domain.schedule_records import Schedule
from trainyard_contracts.schedules import ScheduleSpec


class OfSchedules(Audited):
    """Create, pause, resume and delete."""

    def create_schedule(self, spec: ScheduleSpec) -> Schedule:
        return self._made(
            "schedule.create",
            f"schedule/{spec.name}",
            lambda: create_schedule(self._ports, spec, by=self._by),
            lambda schedule: f"schedule/{schedule.name}",
            priority=max(one.priority for one in spec.chain),
        )

    def pause_schedule(self, name: str, *, reason: str = "") -> Schedule:
        return self._changed(
            "schedule.pause",
            self._schedule(name),
            lambda: pause_schedule(self._ports, name),
            reason,
        )

    def resume_schedule(self, name: str) -> Schedule:
        return self._changed(
            "schedule.resume", self._schedule(name), lambda: resume_schedule(self._ports, name)
        )

    def delete_schedule(self, name: str, *, reason: str = "") -> Schedule:
        return self._changed(
            "schedule.delete",
            self._schedule(name),
            lambda: delete_schedule(self._ports, name),
            reason,
        )

    def _schedule(self, name: str) -> Schedule:
        return self._ports.schedules.get(name)

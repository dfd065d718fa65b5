"""EventBridge Scheduler: it has one schedule for each of ours, and calls the function of steps."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from trainyard.aws.refusals import translated
from trainyard.domain import errors
from trainyard.domain.schedule_records import Schedule

#: An event that the function does not take is sent again so long; the sweep then notices it.
_RETRY = {"MaximumEventAgeInSeconds": 300, "MaximumRetryAttempts": 10}
#: The service puts the time for which it fires in the place of this.
SCHEDULED_TIME = "<aws.scheduler.scheduled-time>"


class _Absent(errors.TrainyardError):
    """There is no such schedule."""


class _There(errors.TrainyardError):
    """There is one already."""


_CODES = {
    "ResourceNotFoundException": _Absent,
    "ConflictException": _There,
    "ValidationException": errors.BackendRejected,
    "ServiceQuotaExceededException": errors.BackendRejected,
}


class EventBridgeScheduler:
    """The port `Scheduler`. All of ours are in one group, which goes with the stack."""

    def __init__(self, scheduler: Any, group: str, function_arn: str, role_arn: str) -> None:
        self._scheduler = scheduler
        self._group, self._function_arn, self._role_arn = group, function_arn, role_arn

    def place(self, schedule: Schedule, begins: datetime | None) -> None:
        request = self.request(schedule, begins)
        try:
            with translated(f"change schedule {schedule.name}", _CODES):
                self._scheduler.update_schedule(**request)
        except _Absent:
            try:
                with translated(f"create schedule {schedule.name}", _CODES):
                    self._scheduler.create_schedule(**request)
            except _There as there:
                raise errors.ConflictError("it was created at this very moment") from there

    def request(self, schedule: Schedule, begins: datetime | None) -> dict[str, Any]:
        """The same for its creation and for a change, which replaces all of it."""
        spec = schedule.spec
        payload = {
            "step": "fire-schedule",
            "scheduleName": schedule.name,
            "generation": schedule.generation,
            "scheduledAt": SCHEDULED_TIME,
        }
        return {
            "Name": schedule.name,
            "GroupName": self._group,
            "ScheduleExpression": spec.expression,
            "ScheduleExpressionTimezone": spec.timezone,
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "State": "ENABLED" if schedule.status == "Active" else "DISABLED",
            **({"StartDate": begins} if begins is not None else {}),
            "Target": {
                "Arn": self._function_arn,
                "RoleArn": self._role_arn,
                "Input": json.dumps(payload),
                "RetryPolicy": _RETRY,
            },
        }

    def remove(self, name: str) -> None:
        try:
            with translated(f"delete schedule {name}", _CODES):
                self._scheduler.delete_schedule(Name=name, GroupName=self._group)
        except _Absent:
            return

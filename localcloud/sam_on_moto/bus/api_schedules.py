"""Fires the schedules that were made by EventBridge Scheduler's API, by a clock that can be moved.

moto keeps them and never fires them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from sam_on_moto.bus import expressions
from sam_on_moto.bus.expressions import Expression
from sam_on_moto.moto_patches.pinned import wrap

log = logging.getLogger(__name__)

#: In a target's input the service puts the time and the schedule in the place of these.
SCHEDULED_TIME = "<aws.scheduler.scheduled-time>"
SCHEDULE_ARN = "<aws.scheduler.schedule-arn>"

Invoke = Callable[[str, str, str], None]
"""invoke(target ARN, role ARN, payload)"""


@dataclass
class Kept:
    """A schedule of the API, when it fires next, and how often it did."""

    expression: Expression
    next_at: datetime | None
    fired: int = 0
    last_error: str = ""


class ApiSchedules:
    """A thread that fires each of them at its times, in their order."""

    def __init__(self, invoke: Invoke) -> None:
        self._invoke = invoke
        self._ahead = timedelta(0)
        self._kept: dict[str, tuple[Any, Kept]] = {}
        self._changed = threading.Condition()
        self._closed = False
        threading.Thread(target=self._run, daemon=True, name="api-schedules").start()

    def install(self) -> None:
        """Hook moto's backend; once per process."""
        from moto.scheduler.exceptions import ValidationException
        from moto.scheduler.models import EventBridgeSchedulerBackend as Backend

        def judged(original: Any) -> Any:
            def change(backend: Any, *args: Any, **given: Any) -> Any:
                try:
                    self._read(given)
                except expressions.Refused as refused:
                    raise ValidationException(str(refused)) from refused
                schedule = original(backend, *args, **given)
                self._keep(schedule, given)
                return schedule

            return change

        def removed(original: Any) -> Any:
            def delete(backend: Any, group_name: str | None, name: str) -> None:
                arn = backend.get_schedule(group_name, name).arn
                original(backend, group_name, name)
                with self._changed:
                    self._kept.pop(arn, None)

            return delete

        wrap(Backend, "create_schedule", judged)
        wrap(Backend, "update_schedule", judged)
        wrap(Backend, "delete_schedule", removed)

    def now(self) -> datetime:
        return datetime.now(timezone.utc) + self._ahead

    def move(self, to: datetime) -> None:
        """Set the clock forward; what is due until then fires, each time with its own time.

        Raises ValueError for a time that has been.
        """
        with self._changed:
            if to < self.now():
                raise ValueError(f"it is {self.now():%Y-%m-%dT%H:%M:%SZ} already")
            self._ahead = to - datetime.now(timezone.utc)
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def report(self) -> list[dict[str, Any]]:
        with self._changed:
            kept = list(self._kept.values())
        return [
            {
                "name": schedule.name,
                "state": schedule.state,
                "nextAt": one.next_at.isoformat() if one.next_at else None,
                "fired": one.fired,
                "lastError": one.last_error,
            }
            for schedule, one in kept
        ]

    def _read(self, given: dict[str, Any]) -> Expression:
        start = given.get("start_date")
        begin = datetime.fromtimestamp(float(start), timezone.utc) if start else self.now()
        zone = given.get("schedule_expression_timezone") or "UTC"
        return expressions.parse(given["schedule_expression"], zone, begin)

    def _keep(self, schedule: Any, given: dict[str, Any]) -> None:
        """A rate without a start begins at once, as AWS has it."""
        expression = self._read(given)
        with self._changed:
            before = self._kept.get(schedule.arn)
            now = self.now() - timedelta(microseconds=1)
            kept = Kept(expression, expression.after(now), before[1].fired if before else 0)
            self._kept[schedule.arn] = (schedule, kept)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                due = self._next()
                if due is None:
                    self._changed.wait(self._seconds())
                    continue
                schedule, kept = due
                at = kept.next_at
                assert at is not None
                kept.next_at = kept.expression.after(at)
            if schedule.state == "ENABLED":
                self._fire(schedule, kept, at)

    def _next(self) -> tuple[Any, Kept] | None:
        """The one that is due first, if one is due."""
        waiting = [entry for entry in self._kept.values() if entry[1].next_at is not None]
        first = min(waiting, key=lambda entry: entry[1].next_at or self.now(), default=None)
        return first if first and first[1].next_at and first[1].next_at <= self.now() else None

    def _seconds(self) -> float:
        times = [kept.next_at for _, kept in self._kept.values() if kept.next_at is not None]
        wait = (min(times) - self.now()).total_seconds() if times else 60.0
        return min(max(wait, 0.0), 60.0)

    def _fire(self, schedule: Any, kept: Kept, at: datetime) -> None:
        target = schedule.target
        payload = str(target.get("Input") or "{}").replace(SCHEDULE_ARN, schedule.arn)
        payload = payload.replace(SCHEDULED_TIME, f"{at:%Y-%m-%dT%H:%M:%SZ}")
        try:
            self._invoke(target["Arn"], target["RoleArn"], payload)
            kept.fired += 1
            kept.last_error = ""
        except Exception as error:  # noqa: BLE001 - one schedule must not end the others
            kept.last_error = str(error)
            log.warning("schedule %s: %s", schedule.name, error)

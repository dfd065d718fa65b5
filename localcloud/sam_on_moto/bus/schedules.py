"""EventBridge Scheduler's rate() schedules, on a thread that really fires them.

moto stores schedules and never fires them.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from sam_on_moto.bus.api_schedules import ApiSchedules
from sam_on_moto.cloud import Cloud
from sam_on_moto.functions.registry import Functions
from sam_on_moto.iam.access import Denied
from sam_on_moto.inside.calls import send_to_queue

log = logging.getLogger(__name__)

_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_SECONDS = {"minute": 60, "hour": 3600, "day": 86400}


@dataclass
class Schedule:
    """One rate schedule of a Lambda function."""

    name: str
    arn: str
    every_seconds: int
    target: Mapping[str, Any]
    next_at: float
    fired: int = 0
    last_error: str = ""


class Schedules:
    """Fires each schedule one interval after it was made, and then at that rate."""

    def __init__(self, cloud: Cloud, functions: Functions) -> None:
        self._cloud = cloud
        self._functions = functions
        self._schedules: dict[str, Schedule] = {}
        self._changed = threading.Condition()
        self._closed = False
        self.of_api = ApiSchedules(self._invoke)
        """Those that were made by the API, and not by the template."""
        threading.Thread(target=self._run, daemon=True, name="schedules").start()

    def add(
        self, name: str, expression: str, target: Mapping[str, Any], *, group: str = "default"
    ) -> Schedule:
        """Raises ValueError for anything but rate() and a Lambda target."""
        found = _RATE.fullmatch(expression)
        if not found:
            raise ValueError(f"the local cloud fires rate(...) schedules only, not {expression!r}")
        if target["Arn"].split(":")[2] != "lambda":
            raise ValueError(f"the local cloud's schedules invoke Lambda only, not {target['Arn']}")
        seconds = int(found[1]) * _SECONDS[found[2]]
        arn = (
            f"arn:aws:scheduler:{self._cloud.region}:{self._cloud.account_id}"
            f":schedule/{group}/{name}"
        )
        schedule = Schedule(name, arn, seconds, target, time.monotonic() + seconds)
        with self._changed:
            self._schedules[name] = schedule
            self._changed.notify()
        return schedule

    def fire(self, name: str) -> bool:
        """Fire now, out of turn; False if there is no such schedule."""
        schedule = self._schedules.get(name)
        if schedule:
            self._fire(schedule)
        return schedule is not None

    def calls(self, function: str) -> bool:
        """Whether a schedule invokes this function."""
        return any(
            s.target["Arn"].endswith(f":function:{function}") for s in self._schedules.values()
        )

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                now = time.monotonic()
                due = [s for s in self._schedules.values() if s.next_at <= now]
                if not due:
                    next_at = min((s.next_at for s in self._schedules.values()), default=now + 60)
                    self._changed.wait(max(0.0, next_at - now))
                for schedule in due:
                    schedule.next_at = max(schedule.next_at + schedule.every_seconds, now)
            for schedule in due:
                self._fire(schedule)

    def _fire(self, schedule: Schedule) -> None:
        target = schedule.target
        payload = target.get("Input") or json.dumps(self._default_event(schedule))
        try:
            self._invoke(target["Arn"], target["RoleArn"], payload)
            schedule.fired += 1
            schedule.last_error = ""
        except Denied as denied:
            schedule.last_error = str(denied)
            queue = target.get("DeadLetterConfig", {}).get("Arn")
            if queue:
                send_to_queue(
                    queue,
                    payload.encode(),
                    {"ERROR_CODE": "AWS.Lambda.AccessDenied", "ERROR_MESSAGE": str(denied)},
                )

    def _invoke(self, arn: str, role: str, payload: str) -> None:
        """Raises Denied."""
        self._cloud.access.require_role(role, "scheduler", "lambda:InvokeFunction", arn)
        self._functions.invoke_later(arn, payload.encode())

    def _default_event(self, schedule: Schedule) -> dict[str, Any]:
        return {
            "version": "0",
            "id": str(uuid.uuid4()),
            "detail-type": "Scheduled Event",
            "source": "aws.scheduler",
            "account": self._cloud.account_id,
            "time": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": self._cloud.region,
            "resources": [schedule.arn],
            "detail": "{}",
        }

    def close(self) -> None:
        self.of_api.close()
        with self._changed:
            self._closed = True
            self._changed.notify()

    def report(self) -> list[dict[str, Any]]:
        return [
            {
                "name": s.name,
                "everySeconds": s.every_seconds,
                "fired": s.fired,
                "lastError": s.last_error,
            }
            for s in self._schedules.values()
        ] + self.of_api.report()

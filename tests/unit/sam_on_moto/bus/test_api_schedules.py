"""Schedules of the API fire at their times, by a clock that a test sets forward."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from tests.support.waiting import eventually

from sam_on_moto.bus.api_schedules import ApiSchedules

ARN = "arn:aws:scheduler:us-east-1:1:schedule/group/nightly"
INPUT = '{"at": "<aws.scheduler.scheduled-time>", "of": "<aws.scheduler.schedule-arn>"}'


@dataclass
class Made:
    """As moto keeps it."""

    name: str = "nightly"
    arn: str = ARN
    state: str = "ENABLED"
    target: dict[str, Any] = field(
        default_factory=lambda: {"Arn": "function", "RoleArn": "role", "Input": INPUT}
    )


class Cloud:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.schedules = ApiSchedules(lambda *call: self.calls.append(call))

    def keep(self, made: Made, expression: str, **given: Any) -> None:
        self.schedules._keep(made, {"schedule_expression": expression, **given})

    def times(self) -> list[str]:
        return [json.loads(payload)["at"] for _, _, payload in self.calls]


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    made = Cloud()
    yield made
    made.schedules.close()


def tonight(cloud: Cloud) -> datetime:
    now = cloud.schedules.now()
    at_two = now.replace(hour=2, minute=0, second=0, microsecond=0)
    return at_two if at_two > now else at_two + timedelta(days=1)


def test_three_nights_that_pass_at_once_fire_three_times_each_with_its_own_time(
    cloud: Cloud,
) -> None:
    first = tonight(cloud)
    cloud.keep(Made(), "cron(0 2 * * ? *)")
    cloud.schedules.move(first + timedelta(days=2, seconds=30))
    eventually("three calls", lambda: len(cloud.calls) == 3, 10)
    nights = [first + timedelta(days=day) for day in range(3)]
    assert cloud.times() == [f"{night:%Y-%m-%dT%H:%M:%SZ}" for night in nights]
    assert cloud.calls[0][:2] == ("function", "role")
    assert json.loads(cloud.calls[0][2])["of"] == ARN


def test_a_disabled_one_does_not_fire_and_an_enabled_one_beside_it_does(cloud: Cloud) -> None:
    off, on = Made("off", "off", state="DISABLED"), Made("on", "on")
    for made in (off, on):
        cloud.keep(made, "cron(0 2 * * ? *)")
    cloud.schedules.move(tonight(cloud) + timedelta(seconds=30))
    eventually("a call", lambda: len(cloud.calls) == 1, 10)
    assert [(one["name"], one["fired"]) for one in cloud.schedules.report()] == [
        ("off", 0), ("on", 1)
    ]  # fmt: skip


def test_a_rate_with_a_start_begins_there(cloud: Cloud) -> None:
    start = (cloud.schedules.now() + timedelta(hours=6)).replace(microsecond=0)
    cloud.keep(Made(), "rate(6 hours)", start_date=start.timestamp())
    cloud.schedules.move(start + timedelta(hours=6, seconds=30))
    eventually("two calls", lambda: len(cloud.calls) == 2, 10)
    assert cloud.times()[0] == f"{start:%Y-%m-%dT%H:%M:%SZ}"


def test_the_clock_is_never_set_back(cloud: Cloud) -> None:
    with pytest.raises(ValueError, match="already"):
        cloud.schedules.move(datetime(2020, 1, 1, tzinfo=timezone.utc))

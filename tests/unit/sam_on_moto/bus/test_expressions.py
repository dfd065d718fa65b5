"""Expressions of EventBridge Scheduler; the control plane foresees what the local cloud fires."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sam_on_moto.bus.expressions import Refused, parse
from trainyard_contracts.cron import Cron, Rate

UTC = timezone.utc
BEGIN = datetime(2026, 11, 24, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["rate(1 minutes)", "rate(2 minute)", "rate(0 minutes)", "cron(0 2 * * *)", "at(2026-01-01)",
     "cron(0 2 * * * *)", "cron(0 2 ? * ? *)", "cron(60 2 * * ? *)", "cron(0 2 ? * 8 *)", ""],
)  # fmt: skip
def test_what_aws_does_not_take_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        parse(text, "UTC", BEGIN)


def test_a_zone_that_there_is_not_is_refused() -> None:
    with pytest.raises(Refused):
        parse("cron(0 2 * * ? *)", "Europe/Atlantis", BEGIN)


def test_days_of_the_week_begin_with_sunday_at_one() -> None:
    due = parse("cron(0 0 ? * 1 *)", "UTC", BEGIN).after(BEGIN)
    assert due == datetime(2026, 11, 29, tzinfo=UTC)


def test_a_rate_fires_at_its_begin_and_then_at_its_rate() -> None:
    rate = parse("rate(6 hours)", "UTC", BEGIN)
    assert rate.after(BEGIN - timedelta(seconds=1)) == BEGIN
    assert rate.after(BEGIN) == BEGIN + timedelta(hours=6)


CRONS = st.tuples(
    st.sampled_from(["0", "30", "*/20", "5,50"]),
    st.sampled_from(["2", "*", "1-3", "*/6", "23"]),
    st.sampled_from([("*", "*"), ("1", "*"), ("*", "1-5"), ("*", "0"), ("*", "7,3"), ("31", "*")]),
    st.sampled_from(["*", "3,10", "FEB", "*/3"]),
).map(lambda parts: f"{parts[0]} {parts[1]} {parts[2][0]} {parts[3]} {parts[2][1]}")
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"])


@given(CRONS, ZONES, st.datetimes(datetime(2026, 3, 1), datetime(2027, 12, 1)))
def test_the_control_plane_foresees_the_times_at_which_the_cloud_fires(
    text: str, zone: str, begin: datetime
) -> None:
    moment, ours = begin.replace(tzinfo=UTC), Cron.of(text)
    theirs = parse(ours.expression(), zone, moment)
    for _ in range(3):
        foreseen = ours.after(moment, ZoneInfo(zone))
        assert theirs.after(moment) == foreseen
        if foreseen is None:
            return
        moment = foreseen


@given(st.sampled_from(["1 minute", "90 minutes", "6 hours", "1 day"]), st.integers(0, 10**6))
def test_the_control_plane_foresees_a_rate(text: str, later: int) -> None:
    ours, moment = Rate.of(text), BEGIN + timedelta(seconds=later)
    theirs = parse(ours.expression(), "UTC", ours.after(BEGIN, BEGIN))
    assert theirs.after(moment) == ours.after(moment, BEGIN)

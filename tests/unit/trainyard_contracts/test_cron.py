"""Times of schedules: cron's fields, rates, and the days on which a zone changes its clock."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_contracts.cron import Cron, Rate, zone_of

BERLIN = ZoneInfo("Europe/Berlin")
UTC = timezone.utc


def times(text: str, begin: datetime, count: int, zone: ZoneInfo = BERLIN) -> list[str]:
    """The next times, in the zone."""
    cron, found, moment = Cron.of(text), [], begin
    for _ in range(count):
        due = cron.after(moment, zone)
        assert due is not None
        found.append(f"{due.astimezone(zone):%m-%d %H:%M%z}")
        moment = due
    return found


def at(year: int, month: int, day: int, hour: int = 0, zone: ZoneInfo = BERLIN) -> datetime:
    return datetime(year, month, day, hour, tzinfo=zone)


def test_each_night_at_two() -> None:
    assert times("0 2 * * *", at(2026, 11, 24, 12), 2) == ["11-25 02:00+0100", "11-26 02:00+0100"]


def test_an_hour_that_spring_leaves_out_has_no_run_that_day() -> None:
    assert times("30 2 * * *", at(2027, 3, 27, 12), 2) == ["03-29 02:30+0200", "03-30 02:30+0200"]
    assert times("30 3 * * *", at(2027, 3, 27, 12), 1) == ["03-28 03:30+0200"]


def test_an_hour_that_autumn_has_twice_has_one_run() -> None:
    assert times("30 2 * * *", at(2026, 10, 24, 12), 2) == ["10-25 02:30+0200", "10-26 02:30+0100"]


def test_lists_ranges_steps_and_names() -> None:
    begin = at(2026, 11, 24)  # a Tuesday
    assert times("0 6,18 * * MON-FRI", begin, 3) == [
        "11-24 06:00+0100", "11-24 18:00+0100", "11-25 06:00+0100"
    ]  # fmt: skip
    assert times("*/20 5 * * 0", begin, 3) == [
        "11-29 05:00+0100", "11-29 05:20+0100", "11-29 05:40+0100"
    ]  # fmt: skip
    assert times("0 0 1 JAN,7 *", begin, 2) == ["01-01 00:00+0100", "07-01 00:00+0200"]
    assert times("0 0 * * 7", begin, 1) == times("0 0 * * SUN", begin, 1)


def test_a_day_that_comes_seldom_is_found_and_one_that_never_comes_is_none() -> None:
    assert times("0 0 29 2 *", at(2026, 11, 24), 1) == ["02-29 00:00+0100"]
    assert Cron.of("0 0 31 2 *").after(at(2026, 11, 24), BERLIN) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 2 * *", "has 4 fields; cron has five"),
        ("60 2 * * *", "minute: '60' must be a number from 0 to 59"),
        ("0 2 * * FUN", "day of the week: 'FUN' must be a number from 0 to 7, or SUN to SAT"),
        ("0 5-2 * * *", "hour: '5-2' ends before it begins"),
        ("*/0 * * * *", "minute: '*/0' has no step"),
        ("\u0665 2 * * *", "minute: '\u0665' must be a number from 0 to 59"),
        ("*/\u0665 2 * * *", "minute: '*/\u0665' has no step"),
        ("0 2 1 * 1", "names both days of the month and days of the week"),
    ],
)
def test_what_is_wrong_is_named(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="^" + words.replace("*", r"\*").split("(")[0]):
        Cron.of(text)


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("0 2 * * *", "cron(0 2 * * ? *)"),
        ("*/15 8-18 * * 1-5", "cron(*/15 8-18 ? * MON,TUE,WED,THU,FRI *)"),
        ("0 0 1 jan *", "cron(0 0 1 JAN ? *)"),
        ("0 0 * * 7", "cron(0 0 ? * SUN *)"),
    ],
)
def test_cron_is_written_as_eventbridge_scheduler_reads_it(text: str, expression: str) -> None:
    assert Cron.of(text).expression() == expression


def test_a_rate_is_counted_from_its_beginning() -> None:
    begin = datetime(2026, 11, 24, 12, tzinfo=UTC)
    rate = Rate.of("90 minutes")
    assert rate.after(begin, begin) == begin + timedelta(minutes=90)
    assert rate.after(begin + timedelta(minutes=90), begin) == begin + timedelta(minutes=180)
    assert rate.after(begin - timedelta(days=1), begin) == begin + timedelta(minutes=90)
    assert [Rate.of(text).expression() for text in ("1 day", "6 hours", "1 minute")] == [
        "rate(1 day)", "rate(6 hours)", "rate(1 minute)"
    ]  # fmt: skip
    with pytest.raises(ValueError, match="must be such as '30 minutes'"):
        Rate.of("0 minutes")


def test_a_zone_that_there_is_not_is_refused() -> None:
    for name in ("Europe/Atlantis", "../../etc/passwd", ""):
        with pytest.raises(ValueError, match="there is no time zone"):
            zone_of(name)


@given(
    st.datetimes(datetime(2026, 1, 1), datetime(2028, 1, 1)),
    st.integers(0, 59), st.integers(0, 23),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
)  # fmt: skip
def test_a_daily_time_is_due_once_a_day_at_that_time_of_the_zone(
    begin: datetime, minute: int, hour: int, name: str
) -> None:
    zone, moment = ZoneInfo(name), begin.replace(tzinfo=UTC)
    cron, days = Cron.of(f"{minute} {hour} * * *"), set()
    for _ in range(3):
        due = cron.after(moment, zone)
        assert due is not None
        assert due > moment
        assert due - moment <= timedelta(hours=49)
        local = due.astimezone(zone)
        assert (local.hour, local.minute) == (hour, minute)
        assert local.date() not in days
        days.add(local.date())
        moment = due

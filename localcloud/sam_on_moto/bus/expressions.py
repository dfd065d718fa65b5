"""Reads the expressions of EventBridge Scheduler: rate() and cron(), in a time zone.

https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Protocol
from zoneinfo import ZoneInfo

_RATE = re.compile(r"rate\((\d+) (minute|minutes|hour|hours|day|days)\)")
_CRON = re.compile(r"cron\((\S+) (\S+) (\S+) (\S+) (\S+) (\S+)\)")
_SECONDS = {"minute": 60, "hour": 3600, "day": 86400}
_MONTHS = [name.upper() for name in calendar.month_abbr][1:]
#: 1 is Sunday.
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_BOUNDS: tuple[tuple[int, int, list[str]], ...] = (
    (0, 59, []),
    (0, 23, []),
    (1, 31, []),
    (1, 12, _MONTHS),
    (1, 7, _DAYS),
    (1970, 2199, []),
)


class Refused(ValueError):
    """AWS would not take the expression, or the local cloud does not know it."""


class Expression(Protocol):
    def after(self, moment: datetime) -> datetime | None:
        """The first time after the moment, in UTC."""
        ...


@dataclass(frozen=True)
class Rate:
    """From its begin at this rate."""

    seconds: int
    begin: datetime

    def after(self, moment: datetime) -> datetime | None:
        if moment < self.begin:
            return self.begin
        whole = int((moment - self.begin).total_seconds() // self.seconds) + 1
        return self.begin + timedelta(seconds=whole * self.seconds)


@dataclass(frozen=True)
class Cron:
    """Minutes of a zone's clock; '?' leaves a field to the other day's field."""

    fields: tuple[frozenset[int], ...]
    zone: ZoneInfo

    def after(self, moment: datetime) -> datetime | None:
        """Minute by minute of a matching hour, so that the zone's own clock decides what there is.

        An hour that comes twice counts the first time only.
        """
        minutes, hours, days, months, weekdays, years = self.fields
        at = (moment + timedelta(minutes=1)).replace(second=0, microsecond=0)
        end = at + timedelta(days=366 * 9)
        while at < end:
            local = at.astimezone(self.zone)
            weekday = local.isoweekday() % 7 + 1
            fits = local.day in days and local.month in months and local.year in years
            if not (fits and weekday in weekdays and local.hour in hours):
                at += timedelta(minutes=60 - local.minute)
            elif local.minute in minutes and not local.fold:
                return at.astimezone(timezone.utc)
            else:
                at += timedelta(minutes=1)
        return None


def parse(text: str, zone: str, begin: datetime) -> Expression:
    """Raises Refused."""
    if found := _RATE.fullmatch(text):
        number, unit = int(found[1]), found[2]
        if number < 1 or (number == 1) == unit.endswith("s"):
            raise Refused(f"Invalid Schedule Expression {text}.")
        return Rate(number * _SECONDS[unit.rstrip("s")], begin)
    fields = _CRON.fullmatch(text)
    if fields is None:
        raise Refused(f"Invalid Schedule Expression {text}.")
    parts = fields.groups()
    if (parts[2] == "?") == (parts[4] == "?"):
        raise Refused(f"Invalid Schedule Expression {text}.")
    try:
        values = tuple(_values(part, *bounds) for part, bounds in zip(parts, _BOUNDS, strict=True))
        return Cron(values, ZoneInfo(zone or "UTC"))
    except (ValueError, KeyError, OSError) as error:
        raise Refused(f"Invalid Schedule Expression {text} in {zone}.") from error


def _values(text: str, first: int, last: int, words: list[str]) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        begin, dash, end = span.partition("-")
        if span in ("*", "?"):
            low, high = first, last
        else:
            low = _number(begin, words)
            high = _number(end, words) if dash else (last if slash else low)
        if not first <= low <= high <= last:
            raise ValueError(part)
        found.update(range(low, high + 1, int(step) if slash else 1))
    return frozenset(found)


def _number(text: str, words: list[str]) -> int:
    return words.index(text) + 1 if text in words else int(text)

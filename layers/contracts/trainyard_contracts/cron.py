"""When a schedule is due: five fields of cron, or a rate, in the time of a zone.

In a zone's spring an hour is left out, and what is due in it is not due that day; in autumn an hour
comes twice, and what is due in it is due once. So EventBridge Scheduler has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
#: As cron counts them: 0 is Sunday, and so is 7.
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_RATE = re.compile(r"^([1-9][0-9]{0,4}) (minute|hour|day)s?\Z")
_SECONDS = {"minute": 60, "hour": 3600, "day": 86400}
#: A day that comes once in four years, and in 2100 not at all, comes within these.
_MOST_DAYS = 9 * 366


@dataclass(frozen=True)
class Field:
    """One field of cron: what it is called, its bounds, and its words."""

    name: str
    first: int
    last: int
    words: Sequence[str] = ()


_FIELDS = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day of the month", 1, 31),
    Field("month", 1, 12, _MONTHS),
    Field("day of the week", 0, 7, _DAYS),
)


@dataclass(frozen=True)
class Cron:
    """The values at which each field is due."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    text: str

    @classmethod
    def of(cls, text: str) -> Cron:
        """Raises ValueError, with the field that is wrong."""
        given = text.split()
        if len(given) != len(_FIELDS):
            names = ", ".join(field.name for field in _FIELDS)
            raise ValueError(
                f"has {len(given)} fields; cron has five: {names}, such as '0 2 * * *' (each night "
                "at 2)"
            )
        values = [_values(field, part) for field, part in zip(_FIELDS, given, strict=True)]
        if given[2] != "*" and given[4] != "*":
            raise ValueError(
                "names both days of the month and days of the week; leave one of them '*'"
            )
        minutes, hours, days, months, weekdays = values
        return cls(minutes, hours, days, months, frozenset(day % 7 for day in weekdays), text)

    def after(self, moment: datetime, zone: tzinfo) -> datetime | None:
        """The first time it is due after the moment, in UTC; None if there is none for years."""
        for due in self._times(moment.astimezone(zone).date(), zone):
            if due > moment:
                return due
        return None

    def expression(self) -> str:
        """As EventBridge Scheduler writes it: six fields, and '?' for the day that is not named."""
        minute, hour, day, month, weekday = self.text.upper().split()
        if weekday == "*":
            weekday = "?"
        else:
            day, weekday = "?", ",".join(_DAYS[one] for one in sorted(self.weekdays))
        return f"cron({minute} {hour} {day} {month} {weekday} *)"

    def _times(self, first: date, zone: tzinfo) -> Iterator[datetime]:
        for count in range(_MOST_DAYS):
            day = first + timedelta(days=count)
            if not self._is_day(day):
                continue
            for hour in sorted(self.hours):
                for minute in sorted(self.minutes):
                    local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
                    due = local.astimezone(timezone.utc)
                    if due.astimezone(zone).replace(tzinfo=None) == local.replace(tzinfo=None):
                        yield due

    def _is_day(self, day: date) -> bool:
        weekday = (day.weekday() + 1) % 7
        return day.day in self.days and day.month in self.months and weekday in self.weekdays


def _values(field: Field, text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, last = _span(field, span, bool(step))
        if step and (not _is_number(step) or int(step) == 0):
            raise ValueError(f"{field.name}: '{part}' has no step; write such as */5")
        found.update(range(first, last + 1, int(step or 1)))
    return frozenset(found)


def _span(field: Field, text: str, stepped: bool) -> tuple[int, int]:
    if text == "*":
        return field.first, field.last
    begin, dash, end = text.partition("-")
    first = _number(field, begin)
    last = _number(field, end) if dash else (field.last if stepped else first)
    if last < first:
        raise ValueError(f"{field.name}: '{text}' ends before it begins")
    return first, last


def _is_number(text: str) -> bool:
    """Digits of ASCII: EventBridge Scheduler has it as it is written."""
    return text.isascii() and text.isdecimal()


def _number(field: Field, text: str) -> int:
    if text.upper() in field.words:
        return list(field.words).index(text.upper()) + (1 if field.first == 1 else 0)
    if not _is_number(text) or not field.first <= int(text) <= field.last:
        raise ValueError(
            f"{field.name}: '{text[:20]}' must be a number from {field.first} to {field.last}"
            + (f", or {field.words[0]} to {field.words[-1]}" if field.words else "")
        )
    return int(text)


@dataclass(frozen=True)
class Rate:
    """Every so many seconds, counted from a beginning."""

    seconds: int
    text: str

    @classmethod
    def of(cls, text: str) -> Rate:
        """Raises ValueError."""
        found = _RATE.match(text)
        if found is None:
            raise ValueError("must be such as '30 minutes', '6 hours' or '1 day'")
        return cls(int(found[1]) * _SECONDS[found[2]], text)

    def after(self, moment: datetime, begin: datetime) -> datetime:
        """The first time it is due after the moment. It is first due one interval after `begin`."""
        passed = (moment - begin).total_seconds() // self.seconds
        return begin + timedelta(seconds=self.seconds * max(1, int(passed) + 1))

    def expression(self) -> str:
        number, unit = self.text.split()
        return f"rate({number} {unit.rstrip('s')}{'' if int(number) == 1 else 's'})"


def zone_of(name: str) -> ZoneInfo:
    """Raises ValueError for a zone that there is not."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"there is no time zone '{name[:50]}'; give one of the IANA database, such as "
            "Europe/Berlin or UTC"
        ) from None

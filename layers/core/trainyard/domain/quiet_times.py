"""When a run stood still though its job ran."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from trainyard.domain.records import Attempt

#: No step for so long is a stall, and for so many times the usual pause between two reports.
STALL_SECONDS = 120
STALL_TIMES = 3


@dataclass(frozen=True)
class Progress:
    """A report of an attempt's newest step."""

    at: datetime
    attempt: int
    step: int


@dataclass(frozen=True)
class Quiet:
    """A time in which no step came; `last`: none came after it."""

    since: datetime
    until: datetime
    last: bool


def quiet_times(attempt: Attempt, progress: Sequence[Progress]) -> list[Quiet]:
    """The times in which an attempt that trained made no step, by its reports."""
    if attempt.first_step_at is None:
        return []
    news: list[datetime] = [attempt.first_step_at]
    step, last = -1, attempt.first_step_at
    for report in sorted(progress, key=lambda one: one.at):
        if report.attempt != attempt.number or report.at < attempt.first_step_at:
            continue
        last = report.at
        if report.step > step:
            step = report.step
            news.append(report.at)
    if len(news) < 3:
        return []
    pauses = [(later - one).total_seconds() for one, later in itertools.pairwise(news)]
    usual = sorted(pauses)[len(pauses) // 2]
    most = max(STALL_SECONDS, STALL_TIMES * usual)
    pause = timedelta(seconds=usual)
    found = [
        Quiet(one + pause, later, False)
        for one, later in itertools.pairwise(news)
        if (later - one).total_seconds() > most
    ]
    end = attempt.ended_at or last
    if (end - news[-1]).total_seconds() > most:
        found.append(Quiet(news[-1] + pause, end, True))
    return found

"""Reads the steps that a training reports in progress.json, or else says in its log: the source of
AttemptStepped.
"""

from __future__ import annotations

import logging
import math
import time
from datetime import datetime, timezone

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host import job_files
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.foreign_progress import ForeignProgress
from trainyard_contracts import places
from trainyard_contracts.attempt_events import AttemptStepped
from trainyard_contracts.progress_file import Progress

log = logging.getLogger(__name__)

#: A node's clock may differ so much from the controller's. One that puts a job's first step further
#: before the attempt or into the future is wrong, and that time is corrected.
CLOCK_SECONDS = 5.0
#: What a log says is read so much later than it was printed.
SAID_LATE_SECONDS = 1.0
# How much the newest step counts in what a step usually takes.
NEWEST_SHARE = 0.3


class ProgressReader:
    """Reads the file again when it changed."""

    def __init__(self, reporter: Reporter, attempts: Attempts) -> None:
        self._reporter, self._attempts = reporter, attempts
        self._foreign = ForeignProgress()

    def read(self, attempt: Attempt) -> None:
        """Take up progress.json if it changed, else what the program says in its own way.

        Report the first step.
        """
        self._read_file(attempt)
        if attempt.progress is None or attempt.progress.source != "program":
            said = self._foreign.read(attempt)
            if said is not None:
                self._take(attempt, said)
                if said.loss is not None and math.isfinite(said.loss):
                    attempt.losses.add(said.loss, (said.step, said.at, said.loss))
        elif self._foreign.has(attempt):
            self._foreign.forget(attempt)
        attempt.read_at = time.monotonic()

    def _read_file(self, attempt: Attempt) -> None:
        path = attempt.directory / places.PROGRESS
        try:
            stat = path.stat()
            if (stat.st_mtime_ns, stat.st_ino) == attempt.progress_seen:
                return
            progress = Progress.model_validate_json(job_files.read_small(attempt.directory, path))
        except (OSError, ValueError):
            return
        attempt.progress_seen = (stat.st_mtime_ns, stat.st_ino)
        self._take(attempt, progress)

    def _take(self, attempt: Attempt, progress: Progress) -> None:
        note_step(attempt, progress, time.monotonic())
        if progress.first_step_at is not None and not attempt.stepped:
            self._report_first(attempt, progress)

    def _report_first(self, attempt: Attempt, progress: Progress) -> None:
        event = self._reporter.make(
            AttemptStepped,
            run_id=attempt.run_id,
            attempt=attempt.number,
            step=progress.step,
            resumed_from=progress.resumed_from,
            stepped_at=datetime.fromtimestamp(first_step_at(attempt, progress), timezone.utc),
            source=progress.source,
        )
        self._attempts.save(attempt, event, stepped=True)
        words = "%s: first step %d, resumed from %s"
        log.info(words, attempt, progress.step, progress.resumed_from)


def note_step(attempt: Attempt, progress: Progress, now: float) -> None:
    """Keep a report of a step: when training last stepped, and how long its steps take."""
    before, attempt.progress = attempt.progress, progress
    if before is None or progress.step != before.step:
        attempt.steps.append((progress.at, progress.step))
    if progress.source != "program":
        _note_said(attempt, before, now)
        return
    if before is None or before.source != "program" or progress.step == before.step:
        return
    if attempt.stepped_at is not None:
        attempt.pauses.append(now - attempt.stepped_at)
    attempt.stepped_at = now
    if progress.step > before.step and progress.at > before.at:
        seconds = (progress.at - before.at) / (progress.step - before.step)
        attempt.step_seconds = smoothed(attempt.step_seconds, seconds)


def step_at(attempt: Attempt, at: float) -> int | None:
    """The step that was known at that time (seconds since the epoch); None if none is known.

    A save is often noticed when its program has said a later step.
    """
    said = [step for when, step in attempt.steps if when <= at + SAID_LATE_SECONDS]
    if said:
        return said[-1]
    return attempt.steps[0][1] if attempt.steps else None


def _note_said(attempt: Attempt, before: Progress | None, now: float) -> None:
    """A log is printed late and by pieces, so it does not say how long a step takes.

    What judges nodes must not hear of it: see nodes/liveness.py.
    """
    progress = attempt.progress
    if before is not None and progress is not None and progress.step == before.step:
        return
    if attempt.said_at is not None:
        attempt.said_every = smoothed(attempt.said_every, now - attempt.said_at)
    attempt.said_at = now


def smoothed(before: float | None, seconds: float) -> float:
    """How long a step usually takes, after one more."""
    return seconds if before is None else (1 - NEWEST_SHARE) * before + NEWEST_SHARE * seconds


def first_step_at(attempt: Attempt, progress: Progress) -> float:
    """When the first step was.

    A node's clock that puts it before the attempt or into the future is wrong: only its
    differences count.
    """
    now, claimed = time.time(), progress.first_step_at or progress.at
    try:
        made = (attempt.directory / places.BUNDLE).stat().st_mtime
    except OSError:
        made = 0.0
    if made - CLOCK_SECONDS <= claimed <= now + CLOCK_SECONDS:
        return claimed
    return now - max(0.0, progress.at - claimed)

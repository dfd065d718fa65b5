"""Reads the steps of a program that reports none: in its log, or in what else it writes."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.bundles import bundle_of
from trainyard_agent.jobs.event_files import EventFiles
from trainyard_agent.jobs.growing_file import GrowingFile, Lines
from trainyard_agent.jobs.line_pattern import LinePattern
from trainyard_agent.jobs.log_steps import Steps
from trainyard_agent.jobs.mlflow_files import MlflowFiles
from trainyard_agent.jobs.wandb_files import WandbFiles
from trainyard_contracts import places
from trainyard_contracts.job_bundle import JobBundle
from trainyard_contracts.progress_file import Progress
from trainyard_contracts.watching import ProgressSource

log = logging.getLogger(__name__)

#: Between two looks at one attempt.
LOOK_SECONDS = 0.5
#: A program that prints its steps may report them, too, a moment later: so long that is waited for.
PATIENCE_SECONDS = 3.0
#: Between two tries to read an attempt's bundle.
RETRY_SECONDS = 10.0
#: A job that is over has its log read to the end in so many looks at most.
LAST_LOOKS = 5
#: Programs that report their steps themselves.
OUR_TRAINERS = "trainyard_trainers."

Named = Literal["log", "tensorboard", "mlflow", "wandb"]


class Source(Protocol):
    """What says steps; `step` is None until it says one."""

    step: int | None
    loss: float | None

    def look(self) -> bool:
        """Read a piece of what is new; whether there may be more. Raises OSError."""
        ...

    def close(self) -> None: ...


class PlainLog:
    """The job's log, as the usual programs print their steps."""

    def __init__(self, directory: Path) -> None:
        self._file, self._lines = GrowingFile(directory, directory / places.JOB_LOG), Lines()
        self._steps = Steps()
        self.step: int | None = None
        self.loss: float | None = None

    def look(self) -> bool:
        body = self._file.read()
        lines = self._lines.of(body)
        last = self._lines.unended()
        # A bar writes its carriage return first: the newest one has no end yet.
        self._steps.read([*lines, last] if "[" in last else lines)
        self.step, self.loss = self._steps.step, self._steps.loss
        return bool(body)

    def close(self) -> None:
        pass


class MatchedLog:
    """The job's log, by the user's own expression."""

    def __init__(self, directory: Path, pattern: str) -> None:
        self._file, self._lines = GrowingFile(directory, directory / places.JOB_LOG), Lines()
        self._pattern = LinePattern(pattern)
        self.step: int | None = None
        self.loss: float | None = None

    def look(self) -> bool:
        if self._pattern.given_up:
            return False
        body = self._file.read()
        step, loss = self._pattern.look(self._lines.of(body))
        self.step = self.step if step is None else max(step, self.step or 0)
        self.loss = self.loss if loss is None else loss
        return bool(body)

    def close(self) -> None:
        self._pattern.close()


@dataclass
class _Reading:
    """One attempt's source; `source` is None where nothing is to be read."""

    source: Source | None
    named: Named = "log"
    due: float = 0.0
    first_seen: float | None = None
    first_at: float = 0.0
    told: tuple[int | None, float | None] = (None, None)
    troubled: bool = False


class ForeignProgress:
    """The readings of all attempts; in memory only: a log is read again after a restart."""

    def __init__(self) -> None:
        self._readings: dict[tuple[str, int], _Reading] = {}

    def has(self, attempt: Attempt) -> bool:
        return (attempt.run_id, attempt.number) in self._readings

    def forget(self, attempt: Attempt) -> None:
        reading = self._readings.pop((attempt.run_id, attempt.number), None)
        if reading is not None and reading.source is not None:
            reading.source.close()

    def read(self, attempt: Attempt) -> Progress | None:
        """The newest step and loss, if they are news."""
        now, key = time.monotonic(), (attempt.run_id, attempt.number)
        reading = self._readings.get(key)
        if reading is None or (reading.source is None and now >= reading.due):
            reading = self._readings[key] = _begin(attempt, now)
        if reading.source is None or (now < reading.due and not attempt.job_ended):
            return None
        reading.due = now + LOOK_SECONDS
        self._look(attempt, reading)
        return _news(attempt, reading, now)

    def _look(self, attempt: Attempt, reading: _Reading) -> None:
        assert reading.source is not None
        try:
            for _ in range(LAST_LOOKS if attempt.job_ended else 1):
                if not reading.source.look():
                    break
        except FileNotFoundError:
            pass  # it is not there yet
        except OSError as error:
            if not reading.troubled:
                log.warning("%s: its steps cannot be read just now: %s", attempt, error)
            reading.troubled = True
        else:
            reading.troubled = False


def _begin(attempt: Attempt, now: float) -> _Reading:
    bundle = bundle_of(attempt)
    if bundle is None:
        return _Reading(None, due=now + RETRY_SECONDS)
    source = _source(attempt, bundle)
    return _Reading(None, due=float("inf")) if source is None else _Reading(*source)


def _source(attempt: Attempt, bundle: JobBundle) -> tuple[Source, Named] | None:
    setting, directory = bundle.progress, attempt.directory
    if setting == "none":
        return None
    if not isinstance(setting, ProgressSource):
        ours = bundle.program[-1].startswith(OUR_TRAINERS)
        return None if ours else (PlainLog(directory), "log")
    if setting.regex is not None:
        return MatchedLog(directory, setting.regex), "log"
    root = directory.parents[1]
    if setting.tensorboard is not None:
        return EventFiles(root, setting.tensorboard), "tensorboard"
    if setting.wandb is not None:
        return WandbFiles(root, setting.wandb), "wandb"
    return MlflowFiles(root, str(setting.mlflow)), "mlflow"


def _news(attempt: Attempt, reading: _Reading, now: float) -> Progress | None:
    source = reading.source
    if source is None or source.step is None:
        return None
    if reading.first_seen is None:
        reading.first_seen, reading.first_at = now, time.time()
    patient = attempt.progress is None and now - reading.first_seen < PATIENCE_SECONDS
    if (patient and not attempt.job_ended) or (source.step, source.loss) == reading.told:
        return None
    reading.told = source.step, source.loss
    return Progress(
        step=source.step,
        loss=source.loss,
        at=time.time(),
        first_step_at=reading.first_at,
        source=reading.named,
    )

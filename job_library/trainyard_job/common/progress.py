"""Reports the training's steps to the node agent and to people: `progress.json`, which is replaced
atomically, and `steps.jsonl`, a line a step.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from . import places
from .files import write_text


class StepReport(NamedTuple):
    """One finished step.

    Seconds are of rank 0; `samples` are tokens or samples of all ranks; loss is their mean. `more`:
    other finite numbers of this step, for its line.
    """

    step: int
    loss: float | None
    samples: int = 0
    step_seconds: float = 0.0
    data_seconds: float = 0.0
    more: Mapping[str, float] = MappingProxyType({})


class Progress:
    """Writes finished steps; rank 0 only. About ten times a second at most, but the first step and
    the last at once.

    `steps.jsonl` has every step of this attempt: step, loss (null if not finite), samplesPerSecond
    (tokens for language models), stepSeconds, dataSeconds (waiting for data), at (seconds since the
    epoch).
    """

    def __init__(
        self,
        attempt_dir: Path,
        *,
        world_size: int,
        resumed_from: int | None,
        every_seconds: float = 0.1,
    ) -> None:
        self._path = attempt_dir / places.PROGRESS
        self._lines_path = attempt_dir / places.STEPS
        self._world_size = world_size
        self._resumed_from = resumed_from
        self._every = every_seconds
        self._first_step_at: float | None = None
        self._written = -math.inf
        self._waiting: list[tuple[StepReport, float]] = []
        self._failed = False
        attempt_dir.mkdir(parents=True, exist_ok=True)

    def step(self, step: int, loss: float | None, *, last: bool = False) -> None:
        """Report that `step` is finished."""
        self.report(StepReport(step, loss), last=last)

    def report(self, done: StepReport, *, last: bool = False) -> None:
        """Report a finished step with its times."""
        now = time.monotonic()
        self._waiting.append((done, time.time()))
        first = self._first_step_at is None
        if first:
            self._first_step_at = time.time()
        if first or last or now - self._written >= self._every:
            self._written = now
            self._write()

    def flush(self) -> None:
        """Write what waits for its time: the program ends."""
        if self._waiting:
            self._write()

    def _write(self) -> None:
        # No fsync: progress is only worth anything while the process lives.
        done, at = self._waiting[-1]
        document = {
            "step": done.step,
            "loss": _finite(done.loss),
            "at": at,
            "resumedFrom": self._resumed_from,
            "firstStepAt": self._first_step_at,
            "worldSize": self._world_size,
        }
        try:
            with open(self._lines_path, "a", encoding="utf-8") as lines:
                lines.writelines(
                    json.dumps(_line(report, when)) + "\n" for report, when in self._waiting
                )
            write_text(self._path, json.dumps(document), durable=False)
            self._failed = False
        # a full disk, which checkpoints decide about: training is worth more than its report
        except OSError as error:
            if not self._failed:
                print(
                    f"trainyard: progress cannot be reported from step {done.step} on: {error}",
                    file=sys.stderr,
                    flush=True,
                )
            self._failed = True
        self._waiting.clear()


def _finite(loss: float | None) -> float | None:
    """NaN and infinity are not JSON: a loss that is not finite is reported as none."""
    return loss if loss is not None and math.isfinite(loss) else None


def _line(done: StepReport, at: float) -> dict[str, Any]:
    return {
        "step": done.step,
        "loss": _finite(done.loss),
        "samplesPerSecond": round(done.samples / done.step_seconds, 1)
        if done.step_seconds > 0
        else None,
        "stepSeconds": round(done.step_seconds, 6),
        "dataSeconds": round(done.data_seconds, 6),
        "at": round(at, 6),
        **done.more,
    }

"""How an attempt at a training job can end, and how long it may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

#: What AWS takes if the request says nothing.
MAX_RUNTIME_SECONDS = 86400.0
Clock = Callable[[], float]


class Kind(Enum):
    COMPLETED = "Completed"
    FAILED = "Failed"
    STOPPED = "Stopped"
    MAX_RUNTIME = "MaxRuntimeExceeded"
    MAX_WAIT = "MaxWaitTimeExceeded"
    INTERRUPTED = "Interrupted"
    BROKEN = "InternalServerError"
    CLOSED = "the local cloud ends"


#: The job has an answer, and its hosts are sound.
SOUND = (Kind.COMPLETED, Kind.FAILED, Kind.STOPPED, Kind.MAX_RUNTIME, Kind.MAX_WAIT)
#: The programs are asked to end before they are killed.
ASKED = (Kind.STOPPED, Kind.MAX_RUNTIME, Kind.MAX_WAIT, Kind.INTERRUPTED)
#: The job's secondary status is Stopping first.
STOPPING = (Kind.STOPPED, Kind.MAX_RUNTIME, Kind.MAX_WAIT)


@dataclass(frozen=True)
class End:
    """`reason` is the job's FailureReason, with FAILED only."""

    kind: Kind
    reason: str = ""


@dataclass
class Limits:
    """How long the whole job may still take; the runtime of all its attempts counts together."""

    runtime: float
    wait: float | None
    clock: Clock = field(repr=False, default=time.monotonic)
    trained: float = 0.0

    def __post_init__(self) -> None:
        self._began = self.clock()
        self._training_since: float | None = None

    @classmethod
    def of(cls, request: Mapping[str, Any], clock: Clock = time.monotonic) -> Limits:
        """The limits of a CreateTrainingJob request, from now on."""
        limits = request.get("StoppingCondition") or {}
        runtime = float(limits.get("MaxRuntimeInSeconds", MAX_RUNTIME_SECONDS))
        wait = limits.get("MaxWaitTimeInSeconds")
        return cls(runtime, None if wait is None else float(wait), clock)

    def training(self) -> None:
        """The programs run from now on."""
        self._training_since = self.clock()

    def pause(self) -> None:
        """They do not run any more."""
        self.trained, self._training_since = self._trained(), None

    def _trained(self) -> float:
        since = self._training_since
        return self.trained + (0.0 if since is None else self.clock() - since)

    def left(self) -> float:
        """Seconds until the next of both limits."""
        wait = float("inf") if self.wait is None else self._began + self.wait - self.clock()
        return min(self.runtime - self._trained(), wait)

    def passed(self) -> End | None:
        """The limit that is reached."""
        if self._trained() >= self.runtime:
            return End(Kind.MAX_RUNTIME)
        if self.wait is not None and self.clock() - self._began >= self.wait:
            return End(Kind.MAX_WAIT)
        return None

"""One training job: its request, its statuses with their times, and what others want of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from trainyard_local.training_jobs import words

#: By the secondary status, the status of the job.
_STATUS = {
    "Completed": "Completed",
    "Failed": "Failed",
    "Stopping": "Stopping",
    "Stopped": "Stopped",
    "MaxRuntimeExceeded": "Stopped",
    "MaxWaitTimeExceeded": "Stopped",
}
TERMINAL = ("Completed", "Failed", "Stopped")
#: What may still come once a job is being stopped.
_AFTER_STOPPING = ("Stopping", "Uploading", *(name for name in _STATUS if name != "Stopping"))
Announce = Callable[["TrainingJob"], None]


def now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass
class Transition:
    """A secondary status; a new message in the same status keeps its start."""

    status: str
    message: str
    started_at: datetime
    ended_at: datetime | None = None

    def say(self, message: str) -> None:
        """How far it is within the status."""
        self.message = message

    def end(self, at: datetime) -> None:
        """The next status began, or there is none."""
        self.ended_at = at


@dataclass
class WarmPool:
    """What became of the hosts of a job that asked to keep them."""

    status: str = "InUse"
    reused_by: str = ""
    available_at: datetime | None = None
    billable_seconds: int = 0


@dataclass
class TrainingJob:
    """It is Starting when it is made, and its life changes it through its methods.

    `wishes` are the other way, from calls and faults. `announce` is called after each change of the
    status or its message, and never under the job's lock.
    """

    request: dict[str, Any]
    arn: str
    announce: Announce = field(repr=False)
    status: str = "InProgress"
    transitions: list[Transition] = field(default_factory=list)
    failure_reason: str = ""
    created_at: datetime = field(default_factory=now)
    modified_at: datetime = field(default_factory=now)
    started_at: datetime | None = None
    ended_at: datetime | None = None
    billable_seconds: float = 0.0
    has_artifacts: bool = False
    warm_pool: WarmPool | None = None
    tags: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        self.wishes = Wishes()
        self.tags.update({tag["Key"]: tag["Value"] for tag in self.request.get("Tags") or []})
        self._note("Starting", words.STARTING, self.created_at)

    @property
    def name(self) -> str:
        return str(self.request["TrainingJobName"])

    @property
    def secondary(self) -> str:
        return self.transitions[-1].status

    @property
    def ended(self) -> bool:
        return self.status in TERMINAL

    @property
    def spot(self) -> bool:
        return bool(self.request.get("EnableManagedSpotTraining"))

    @property
    def keep_alive_seconds(self) -> int:
        return int(self.request["ResourceConfig"].get("KeepAlivePeriodInSeconds") or 0)

    def keep_alive(self, seconds: int) -> None:
        """Another period from now on, as UpdateTrainingJob has it."""
        with self.lock:
            self.request["ResourceConfig"]["KeepAlivePeriodInSeconds"] = seconds
            self.modified_at = now()

    def enter(self, secondary: str, message: str) -> None:
        """The next secondary status, or another message in the same one."""
        with self.lock:
            entered = self._enter(secondary, message, now())
        if entered:
            self.announce(self)

    def _enter(self, secondary: str, message: str, at: datetime) -> bool:
        stopping = self.status == "Stopping"
        if self.ended or (stopping and secondary not in _AFTER_STOPPING):
            return False
        self._note(secondary, message, at)
        if not stopping or _STATUS.get(secondary) in TERMINAL:
            self.status = _STATUS.get(secondary, "InProgress")
        self.modified_at = at
        return True

    def _note(self, secondary: str, message: str, at: datetime) -> None:
        last = self.transitions[-1] if self.transitions else None
        if last is not None and last.status == secondary:
            last.say(message)
            return
        if last is not None:
            last.end(at)
        self.transitions.append(Transition(secondary, message, at))

    def begin(self) -> None:
        """The job is on its instances, and is paid for from now on."""
        with self.lock:
            self.started_at = self.started_at or now()

    def bill(self, seconds: float) -> None:
        """So long it had instances."""
        with self.lock:
            self.billable_seconds += seconds

    def keep_artifacts(self) -> None:
        """There is a model at the place that DescribeTrainingJob names."""
        with self.lock:
            self.has_artifacts = True

    def pool(self, pool: WarmPool) -> None:
        """What is known of the job's warm pool from now on."""
        with self.lock:
            self.warm_pool = pool
            self.modified_at = now()

    def end(self, secondary: str, reason: str = "") -> None:
        """The last status; with `Failed` comes why."""
        at = now()
        with self.lock:
            self.failure_reason = reason
            self.ended_at = at if self.started_at else None
            self._enter(secondary, words.ENDED[secondary], at)
            self.transitions[-1].end(at)
        self.announce(self)


class Wishes:
    """What calls and faults want of a running job; `changed` is set whenever there is one more."""

    def __init__(self) -> None:
        self.changed = threading.Event()
        self._stop = threading.Event()
        self._interrupt = threading.Event()
        self._break = threading.Event()
        self._close = threading.Event()

    def stop(self) -> None:
        """StopTrainingJob."""
        self._want(self._stop)

    def interrupt(self) -> None:
        """EC2 wants its spot instances back."""
        self._want(self._interrupt)

    def break_down(self) -> None:
        """SageMaker has an error of its own."""
        self._want(self._break)

    def close(self) -> None:
        """The local cloud ends; nobody will ask for the job any more."""
        self._want(self._close)

    def look(self) -> None:
        """Something happened to the job's hosts."""
        self.changed.set()

    def _want(self, event: threading.Event) -> None:
        event.set()
        self.changed.set()

    @property
    def wants_stop(self) -> bool:
        return self._stop.is_set()

    @property
    def wants_close(self) -> bool:
        return self._close.is_set()

    def take_interrupt(self) -> bool:
        """Whether there was an interruption since the last time."""
        return _take(self._interrupt)

    def take_break(self) -> bool:
        """Whether there was an internal error since the last time."""
        return _take(self._break)

    def wait(self, seconds: float) -> None:
        """Until something changed, or so long."""
        self.changed.wait(max(0.0, seconds))
        self.changed.clear()


def _take(event: threading.Event) -> bool:
    if not event.is_set():
        return False
    event.clear()
    return True

"""One attempt, as the controller knows it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypedDict

from trainyard_contracts.attempt_events import AttemptQueued
from trainyard_contracts.curves import MOST_POINTS, Point
from trainyard_contracts.job_bundle import JobBundle
from trainyard_contracts.progress_file import Progress
from trainyard_contracts.thinning import Thinned

log = logging.getLogger(__name__)

State = Literal["intent", "submitting", "submitted", "running", "ended"]
#: In the store only: ended, and everything that follows the end was done.
CLOSED = "closed"
# Of an attempt, so many steps are known with their times.
STEPS_KEPT = 64
# Of the looks that saw another step, so many say how long training pauses now and then.
PAUSES_KEPT = 32


@dataclass
class Attempt:
    """One attempt in this agent's memory.

    `state`, `job_id`, `nodes` and `stepped` are in the store as well.
    """

    run_id: str
    number: int
    state: State
    directory: Path
    bundle_uri: str = ""
    job_id: str = ""
    nodes: tuple[str, ...] = ()
    stepped: bool = False
    job_state: str = ""
    progress: Progress | None = None
    progress_seen: tuple[int, int] = (0, 0)
    stepped_at: float | None = None
    step_seconds: float | None = None
    read_at: float | None = None
    pauses: deque[float] = field(default_factory=lambda: deque(maxlen=PAUSES_KEPT))
    """The newest times between two looks that saw another step."""
    said_at: float | None = None
    """When a log, or what else the program writes, last said another step: it may be late, so it
    says nothing of nodes."""
    said_every: float | None = None
    steps: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=STEPS_KEPT))
    """The newest steps, and when they were said (seconds since the epoch)."""
    losses: Thinned[Point] = field(default_factory=lambda: Thinned(MOST_POINTS))
    """What its log, or what else the program writes, said of the loss."""
    doubted_at: float | None = None
    """The step after which training stood still so long that its nodes were asked."""
    job_ended: bool = False
    closed: bool = False
    ended_well: bool = False
    """In memory only: after a restart nobody knows, and no is the careful answer."""
    ended_at: float | None = None
    running_since: float = field(default_factory=time.monotonic)
    cut_off_from: str = ""
    followed_since: float = field(default_factory=time.monotonic)
    pending_reason: str = ""
    exclusion_set: bool = False
    """The control plane said which nodes the waiting job must not use, since this agent started."""
    queue_asked_at: float = float("-inf")
    queue_told: AttemptQueued | None = None
    queue_told_at: float = float("-inf")
    looked_at: float = float("-inf")
    counted_at: float = float("-inf")
    hollow_since: float | None = None
    hollow: bool = False
    eager_until: float = 0.0
    hosts_stale: bool = False
    writes_hosts: bool = False
    bundle: JobBundle | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def active(self) -> bool:
        return self.state in ("submitted", "running")

    def __str__(self) -> str:
        """As the log names it."""
        return f"{self.run_id} attempt {self.number}"


class Changes(TypedDict, total=False):
    """What changes of an attempt only together with its row in the store."""

    state: State
    job_id: str
    nodes: tuple[str, ...]
    stepped: bool
    closed: bool

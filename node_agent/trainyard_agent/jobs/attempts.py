"""The controller's book of attempts: in memory and in the store, changed together with events."""

from __future__ import annotations

import asyncio
import heapq
import json
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypedDict

from typing_extensions import Unpack

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.configuration import attempt_dir
from trainyard_agent.nodes.activity import Activity
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.attempt_events import AttemptQueued
from trainyard_contracts.curves import MOST_POINTS, Point
from trainyard_contracts.event_bases import AgentEvent
from trainyard_contracts.heartbeats import RunSample
from trainyard_contracts.job_bundle import JobBundle
from trainyard_contracts.progress_file import Progress
from trainyard_contracts.thinning import Thinned

log = logging.getLogger(__name__)

State = Literal["intent", "submitting", "submitted", "running", "ended"]
#: In the store only: ended, and everything that follows the end was done.
CLOSED = "closed"
_QUERY = """
SELECT run, attempt, state, bundle, job, nodes, stepped FROM attempts ORDER BY run, attempt
"""
#: A node that comes back is asked to end what is left of so many of the runs that used it, the
#: newest.
LEFTOVER_RUNS = 20
#: An ended attempt still explains for this long why its nodes fell silent.
RECENT_SECONDS = 60.0
# After a hint that a job ended, active jobs are looked at closely for so long.
HINT_SECONDS = 5.0
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


class Attempts:
    """All attempts this controller knows."""

    def __init__(self, config: AgentConfig, reporter: Reporter) -> None:
        self._config, self._reporter = config, reporter
        self.changed = asyncio.Event()
        self.known: dict[tuple[str, int], Attempt] = {}
        self._cancels: dict[str, int] = {}
        self._load()

    def _load(self) -> None:
        connection = self._reporter.store.connection
        for run, number, state, uri, job, nodes, stepped in connection.execute(_QUERY):
            attempt = Attempt(
                run,
                number,
                "ended" if state == CLOSED else state,
                attempt_dir(self._config, run, number),
                uri,
                job,
                tuple(json.loads(nodes)),
                bool(stepped),
            )
            attempt.closed = state == CLOSED
            attempt.job_ended = attempt.state == "ended"
            if attempt.job_ended:
                attempt.done.set()
            self.known[run, number] = attempt
        self._cancels = dict(connection.execute("SELECT run, attempt FROM cancels").fetchall())

    # -- the store --------------------------------------------------------------------------------
    def save(
        self,
        attempt: Attempt,
        *events: AgentEvent,
        must: bool = False,
        **changes: Unpack[Changes],
    ) -> None:
        """Change an attempt and report it, in one transaction.

        `must`: raise sqlite3.OperationalError if it cannot reach the disk. If it raises, the
        attempt is as it was.
        """
        changed = replace(attempt, **changes)
        row = _row(changed)

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO attempts VALUES(?, ?, ?, ?, ?, ?, ?)", row)

        if must:
            self._reporter.store.apply_now(change)
        else:
            self._reporter.report(*events, change=change)
        attempt.state, attempt.job_id, attempt.nodes = changed.state, changed.job_id, changed.nodes
        attempt.stepped, attempt.closed = changed.stepped, changed.closed
        self.known[attempt.run_id, attempt.number] = attempt
        self.changed.set()

    def request_cancel(self, attempt: Attempt) -> None:
        """Note that a person wants this attempt to end; later attempts of the run are not meant."""
        self._cancels[attempt.run_id] = attempt.number
        row = (attempt.run_id, attempt.number)
        self._reporter.report(
            change=lambda db: db.execute("INSERT OR REPLACE INTO cancels VALUES(?, ?)", row)
        )

    def cancelled(self, attempt: Attempt) -> bool:
        return self._cancels.get(attempt.run_id) == attempt.number

    def newest(self, run_id: str) -> Attempt | None:
        """The run's newest attempt."""
        return max(
            (a for (run, _), a in self.known.items() if run == run_id),
            key=lambda a: a.number,
            default=None,
        )

    def nodes_before(self, attempt: Attempt) -> tuple[str, ...]:
        """The nodes of the run's attempt before this one."""
        older = (a for a in self.known.values() if a.run_id == attempt.run_id)
        before = [a for a in older if a.number < attempt.number]
        return max(before, key=lambda a: a.number).nodes if before else ()

    def superseded(self, attempt: Attempt) -> bool:
        """A newer attempt of the run exists."""
        newest = self.newest(attempt.run_id)
        return newest is not None and newest.number > attempt.number

    def active(self) -> list[Attempt]:
        return [attempt for attempt in self.known.values() if attempt.active]

    # -- what others ask (activity.Jobs) ----------------------------------------------------------
    def on_node(self, node: str) -> Activity | None:
        """The attempt whose job is on the node, else the one that ended there a moment ago."""
        return activity_on(node, self.known.values(), time.monotonic())

    def busy(self) -> bool:
        return bool(self.active())

    def leftovers(self, node: str) -> list[tuple[str, int, list[str]]]:
        return leftovers_on(node, self.known.values())

    def samples(self) -> list[RunSample]:
        """The progress of every active run."""
        return [_sample(attempt) for attempt in self.active()]

    def job_ended_somewhere(self) -> None:
        """The epilog's hint: look at every active job now, and closely for a while."""
        for attempt in self.active():
            attempt.eager_until = time.monotonic() + HINT_SECONDS
            attempt.wake.set()


def activity_on(node: str, attempts: Collection[Attempt], now: float) -> Activity | None:
    """Of the attempts that use the node, or did a moment ago, the one that says most about it.

    Attempts' numbers count within a run.
    """
    using = [
        a
        for a in attempts
        if node in a.nodes and (a.active or (a.ended_at or -1e9) > now - RECENT_SECONDS)
    ]
    if not using:
        return None
    last = max(using, key=lambda a: (a.active, not a.job_ended, a.ended_at or 0.0, a.number))
    return Activity(
        last.run_id,
        last.number,
        last.job_ended,
        last.stepped_at,
        last.step_seconds,
        pause=usual_pause(last.pauses),
        read_at=last.read_at,
    )


def usual_pause(pauses: Collection[float]) -> float:
    """The longest but one: a single one may have been an evaluation."""
    return min(heapq.nlargest(2, pauses)) if len(pauses) > 1 else 0.0


def leftovers_on(node: str, attempts: Collection[Attempt]) -> list[tuple[str, int, list[str]]]:
    """What the node may still run of attempts that are over, as activity.Jobs says.

    It leaves out the newest attempt of a run while that goes on, and a job whose number another run
    has by now.
    """
    newest: dict[str, int] = {}
    for attempt in attempts:
        newest[attempt.run_id] = max(attempt.number, newest.get(attempt.run_id, 0))
    over: dict[str, list[Attempt]] = {}
    alive = {""}
    for attempt in attempts:
        if attempt.active and attempt.number == newest[attempt.run_id]:
            alive.add(attempt.job_id)
        elif node in attempt.nodes:
            over.setdefault(attempt.run_id, []).append(attempt)
    newest_runs = sorted(over, reverse=True)[:LEFTOVER_RUNS]  # their ids begin with the time
    return [
        (
            run,
            max(a.number for a in over[run]),
            [a.job_id for a in over[run] if a.job_id not in alive],
        )
        for run in newest_runs
    ]


def _sample(attempt: Attempt) -> RunSample:
    progress = attempt.progress
    return RunSample(
        run_id=attempt.run_id,
        attempt=attempt.number,
        job_state=attempt.job_state,
        pending_reason=attempt.pending_reason,
        step=progress.step if progress else None,
        loss=progress.loss if progress else None,
    )


def _row(attempt: Attempt) -> tuple[str, int, str, str, str, str, int]:
    """The attempt as the store keeps it."""
    return (
        attempt.run_id,
        attempt.number,
        CLOSED if attempt.closed else attempt.state,
        attempt.bundle_uri,
        attempt.job_id,
        json.dumps(attempt.nodes),
        int(attempt.stepped),
    )

"""A decision changes a draft of the run in steps, and ends as a `Decision`.

A run's record must fit into one item of the table, however long the run and however many its nodes.
So of its past it keeps what decisions need and what people look at first; the timeline keeps all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from trainyard.domain.book import Book
from trainyard.domain.cluster_facts import ClusterLost
from trainyard.domain.order_facts import ExportRequested
from trainyard.domain.records import (
    Action,
    Attempt,
    Cluster,
    Incident,
    Problem,
    Run,
    RunStatus,
    TimelineEntry,
)
from trainyard.domain.runs import Outcome, stopped

Next = Literal["ensure-cluster", "submit", "wait", "repair", "export", "teardown", "finish"]
#: The longest wait: the machine looks at the run at least once a day even if nothing happens.
LONGEST_WAIT_SECONDS = 86400
#: Attempts that a record keeps: as many as a life may have (recovery.maxAttempts), so that budgets
#: count right.
MOST_ATTEMPTS = 1000
MOST_INCIDENTS = 200
MOST_HANDLED = 500
#: Names of nodes that all attempts but the newest keep together; the newest keeps all its own.
MOST_NAMES = 2000
#: So many attempts and incidents, the newest, keep their reason in words.
MOST_REASONS = 50


@dataclass(frozen=True)
class Decision:
    """Where the run's machine goes next, what the run becomes, and why.

    `notes` are new timeline lines with ids that repeat.
    """

    next: Next
    run: Run
    reason: str
    actions: Sequence[Action] = ()
    notes: Sequence[TimelineEntry] = ()
    timeout_seconds: int = LONGEST_WAIT_SECONDS


@dataclass
class Draft:
    """The run as decided so far.

    It never touches the run that came in: records are frozen, and `change` replaces them.
    """

    run: Run
    book: Book
    cluster: Cluster | None
    now: datetime
    notes: list[TimelineEntry] = field(default_factory=list)
    deadlines: list[datetime] = field(default_factory=list)
    held: set[str] = field(default_factory=set)

    def change(self, **update: Any) -> None:
        self.run = self.run.changed(**update)

    def change_attempt(self, **update: Any) -> None:
        """Change the newest attempt."""
        self.change(attempts=[*self.run.attempts[:-1], self.run.attempts[-1].changed(**update)])

    def note(
        self,
        key: str,
        type_: str,
        message: str,
        *,
        kind: Literal["decision", "status"] = "decision",
        **data: Any,
    ) -> None:
        """Add a timeline line. `key` names the decision, so that repeating it repeats the id."""
        number = self.attempt.number if self.attempt else None
        entry_id = f"{kind}-{self.run.life}-{number or 0}-{key}"
        self.notes.append(
            TimelineEntry(
                id=entry_id,
                at=self.now,
                kind=kind,
                type=type_,
                message=message,
                attempt=number,
                data=data,
            )
        )

    def act(self, action: Action) -> None:
        """Plan an action once."""
        if all(known.id != action.id for known in self.run.actions):
            self.change(actions=[*self.run.actions, action])

    def status(self, status: RunStatus, reason: str | None = None) -> None:
        self.change(status=status, **({} if reason is None else {"reason": reason}))

    def stop(self, outcome: Outcome, reason: str, problem: Problem | None = None) -> None:
        """Training is over; export, teardown and finish follow."""
        self.run = stopped(self.run, self.now, outcome, reason, problem)

    def handle_once(self, fact_id: str) -> bool:
        """True the first time; so that a fact without an attempt acts once."""
        if fact_id in self.run.handled_facts:
            return False
        self.change(handled_facts=[*self.run.handled_facts, fact_id])
        return True

    def by(self, moment: datetime) -> None:
        """The next wait must not last beyond this moment."""
        self.deadlines.append(moment)

    @property
    def due(self) -> list[Action]:
        """What is to be done now; the rest is held back."""
        return [action for action in self.run.actions if action.id not in self.held]

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt of this life."""
        newest = self.run.attempt
        return newest if newest is not None and newest.life == self.run.life else None

    @property
    def attempts_left(self) -> int:
        used = sum(
            attempt.life == self.run.life and not attempt.wanting for attempt in self.run.attempts
        )
        return max(0, self.run.spec.recovery.max_attempts - used)

    @property
    def incidents(self) -> list[Incident]:
        """This life's incidents."""
        return [incident for incident in self.run.incidents if incident.life == self.run.life]

    @property
    def opened_at(self) -> datetime:
        return self.run.opened_at or self.run.created_at

    @property
    def cluster_ready(self) -> bool:
        return self.cluster is not None and self.cluster.status == "Ready"

    @property
    def lost_cluster(self) -> ClusterLost | None:
        """The fact that the cluster was lost in this life of the run.

        None if it sent heartbeats since: then it is back.
        """
        lost = self.book.last(ClusterLost)
        beat = self.cluster.last_heartbeat_at if self.cluster is not None else None
        if lost is None or lost.at < self.opened_at or (beat is not None and beat > lost.at):
            return None
        return lost

    def freeze(self, next_: Next) -> Decision:
        earliest = min(self.deadlines, default=self.now + timedelta(seconds=LONGEST_WAIT_SECONDS))
        seconds = int((earliest - self.now).total_seconds()) + 1
        requests = [fact.id for fact in self.book.of(ExportRequested)]
        run = bounded(self.run, requests, self.book.lost_nodes())
        return Decision(
            next=next_,
            run=run,
            reason=run.reason,
            actions=tuple(self.due) if next_ == "repair" else (),
            notes=tuple(self.notes),
            timeout_seconds=min(max(seconds, 1), LONGEST_WAIT_SECONDS),
        )


def bounded(run: Run, open_keys: Collection[str] = (), lost: Collection[str] = ()) -> Run:
    """The run with a past that fits. Doing it twice changes nothing.

    `open_keys` and `lost` name facts and nodes that a decision still meets: their handling is never
    forgotten.
    """
    attempts, former = _attempts(run)
    update = {
        "attempts": attempts,
        "former_nodes": sorted({*run.former_nodes, *former}),
        "incidents": _incidents(run.incidents),
        "handled_facts": _handled(run.handled_facts, set(open_keys), lost),
    }
    return run.changed(
        **{name: value for name, value in update.items() if value != getattr(run, name)}
    )


def _attempts(run: Run) -> tuple[list[Attempt], set[str]]:
    """Attempts with the lists of nodes that fit, and the nodes that no attempt names any more."""
    kept: list[Attempt] = []
    former: set[str] = set()
    room = MOST_NAMES
    for age, attempt in enumerate(reversed(run.attempts)):
        names = len(attempt.nodes) + len(attempt.exclude) + len(attempt.down) if age else 0
        update: dict[str, Any] = {"reason": ""} if age >= MOST_REASONS and attempt.reason else {}
        if names > room or age >= MOST_ATTEMPTS:
            former.update(attempt.nodes)
            update |= {"nodes": [], "exclude": [], "down": []}
        else:
            room -= names
        kept.append(attempt.changed(**update) if update else attempt)
    return kept[:MOST_ATTEMPTS][::-1], former


def _incidents(incidents: list[Incident]) -> list[Incident]:
    """Open ones are among the newest: a first step closes them all."""
    old, new = incidents[-MOST_INCIDENTS:-MOST_REASONS], incidents[-MOST_REASONS:]
    return [
        incident.changed(reason="", actions=[]) if incident.reason else incident for incident in old
    ] + new


def _handled(keys: list[str], open_keys: set[str], lost: Iterable[str]) -> list[str]:
    if len(keys) <= MOST_HANDLED:
        return keys
    ends = tuple(f"-{node}" for node in lost)
    old, new = keys[:-MOST_HANDLED], keys[-MOST_HANDLED:]
    return [key for key in old if key in open_keys or (ends and key.endswith(ends))] + new

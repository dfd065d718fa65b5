"""The facts of a run in order of time."""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from trainyard.domain.facts import attempt_of
from trainyard.domain.job_ends import joined
from trainyard.domain.job_facts import JobEnded
from trainyard.domain.node_evidence import gone_nodes
from trainyard.domain.records import Attempt, Checkpoint
from trainyard.domain.words import mark
from trainyard_contracts import places
from trainyard_contracts.events import (
    AttemptEnded,
    CheckpointCommitted,
    CheckpointRejected,
    Fact,
    NodeLost,
    NodeReturned,
    NodesChanged,
)

F = TypeVar("F", bound=Fact)


class Book:
    """Facts in order of time, each once.

    `made_at` is when the cluster was made: older facts about nodes belong to an earlier cluster of
    the same name. `checkpoints` are the newest of the run's list, which is stored beside the
    facts. `jobs_end`: the backend says when a job is over, and before that no end of a program
    counts: its nodes may still run, and only the backend knows what became of them.
    """

    def __init__(
        self,
        facts: Iterable[Fact],
        *,
        made_at: datetime | None = None,
        checkpoints: Iterable[Checkpoint] = (),
        jobs_end: bool = False,
    ) -> None:
        self._made_at = made_at
        self._jobs_end = jobs_end
        unique = {fact.id: fact for fact in facts}
        self._facts = sorted(unique.values(), key=lambda fact: (fact.at, fact.id))
        self._checkpoints = list(checkpoints)
        self._lost: dict[str, NodeLost | AttemptEnded] | None = None

    def of(self, *types: type[F], attempt: int | None = None) -> list[F]:
        """Facts of these classes; with `attempt`, only those of that very attempt."""
        return [
            fact
            for fact in self._facts
            if isinstance(fact, types) and (attempt is None or attempt_of(fact) == attempt)
        ]

    def all(self) -> list[Fact]:
        return list(self._facts)

    def first(self, *types: type[F], attempt: int | None = None) -> F | None:
        return next(iter(self.of(*types, attempt=attempt)), None)

    def last(self, *types: type[F], attempt: int | None = None) -> F | None:
        found = self.of(*types, attempt=attempt)
        return found[-1] if found else None

    def end_of(self, attempt: Attempt) -> AttemptEnded | None:
        """The end of the attempt's own job; the end of another job says nothing of this attempt."""
        ends = self.of(AttemptEnded, attempt=attempt.number)
        told = next(
            (end for end in ends if attempt.job_id is None or end.job_id == attempt.job_id), None
        )
        if not self._jobs_end:
            return told
        over = self.job_end_of(attempt)
        return joined(over, told) if over is not None else None

    def job_end_of(self, attempt: Attempt) -> JobEnded | None:
        """What the backend says of the end of the attempt's job."""
        return self.first(JobEnded, attempt=attempt.number)

    def lost_nodes(self) -> dict[str, NodeLost | AttemptEnded]:
        """Slurm nodes that are lost now, each with the fact that first said so.

        A job's end of kind 'node' says the same as NodeLost, and may arrive first; the agent sends
        NodeReturned after either of them. A node that Slurm no longer knows is not lost but gone:
        another node has taken its place, or will.
        """
        if self._lost is None:
            self._lost = self._find_lost()
        return dict(self._lost)

    def _find_lost(self) -> dict[str, NodeLost | AttemptEnded]:
        lost: dict[str, NodeLost | AttemptEnded] = {}
        for fact in self._facts:
            if self._made_at is not None and fact.at < self._made_at:
                continue
            if isinstance(fact, NodeReturned):
                lost.pop(fact.about.node, None)
            elif isinstance(fact, NodesChanged):
                away = gone_nodes(fact, lost)
                lost = {name: said for name, said in lost.items() if name not in away}
            elif isinstance(fact, NodeLost):
                lost.setdefault(fact.about.node, fact)
            elif isinstance(fact, AttemptEnded) and fact.error_kind == "node":
                for entry in fact.nodes:
                    if entry.node == fact.failed_node:
                        lost.setdefault(entry.node, fact)
        lost.pop("", None)
        return lost

    def members(self) -> NodesChanged | None:
        """The newest change of Slurm's list of nodes since the cluster was made, or None."""
        found = self.last(NodesChanged)
        return (
            found
            if found is not None and (self._made_at is None or found.at >= self._made_at)
            else None
        )

    def saved_by(self, attempt: Attempt) -> str | None:
        """The newest checkpoint that the attempt made ('step 40', 'copy 3'): it came so far."""
        told = self.of(CheckpointCommitted, attempt=attempt.number)
        listed = [found for found in self._checkpoints if found.attempt == attempt.number]
        return _newest([*told, *listed])

    def newest_checkpoint(self, *, before: int | None = None) -> str | None:
        """The newest checkpoint that is whole as far as we know: 'step 40', or 'copy 3'.

        `before`: of attempts before this one.
        """
        rejected = {fact.path for fact in self.of(CheckpointRejected)}
        rejected |= {found.path for found in self._checkpoints if found.status == "rejected"}
        known: list[CheckpointCommitted | Checkpoint] = [*self.of(CheckpointCommitted)]
        known += [found for found in self._checkpoints if found.status == "whole"]
        return _newest(
            found
            for found in known
            if found.path not in rejected and (before is None or found.attempt < before)
        )


def _newest(found: Iterable[CheckpointCommitted | Checkpoint]) -> str | None:
    """Of a program's copies of one name the last, whatever their steps: an attempt that resumed may
    know no step yet. Among names, steps say more than counts, which begin anew for each.
    """
    last: dict[str, CheckpointCommitted | Checkpoint] = {}
    for one in sorted(found, key=lambda one: _order(one.path, one.step)):
        last[one.path.rpartition("/")[0]] = one
    best = max(last.values(), key=lambda one: (not one.counted, one.step), default=None)
    return mark(best.step, best.counted) if best is not None else None


def _order(path: str, step: int) -> int:
    """The newer, the larger, among those in one directory."""
    copy = places.SAVE_NAME.match(path.rpartition("/")[2])
    return int(copy.group(1)) if copy else step

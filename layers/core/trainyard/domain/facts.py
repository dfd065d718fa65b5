"""A book of facts: what happened to a run and its cluster, read in one place and never changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from trainyard.domain.records import Attempt, Fact

#: Facts that the control plane makes itself, beside the agent's events.
CLUSTER_FAILED = "ClusterFailed"
CLUSTER_DELETED = "ClusterDeleted"
CLUSTER_LOST = "ClusterLost"
CLUSTER_STATE = "ClusterState"
LIFECYCLE_FAILED = "LifecycleFailed"
CANCEL_REQUESTED = "CancelRequested"
EXPORT_REQUESTED = "ExportRequested"
RESUME_REQUESTED = "ResumeRequested"
UNSAVED_RUN = "UnsavedRun"
SAVED_RUN = "SavedRun"
IDLE_AND_SILENT = "IdleAndSilent"


class Book:
    """Facts in order of time, each once. Facts that an agent wrote are read leniently: a missing key is None.

    `made_at` is when the cluster was made: what was said of nodes before is of an earlier cluster of the same name.
    """

    def __init__(self, facts: Iterable[Fact], *, made_at: datetime | None = None) -> None:
        self._made_at = made_at
        unique = {fact.id: fact for fact in facts}
        self._facts = sorted(unique.values(), key=lambda fact: (fact.at, fact.id))
        self._lost: dict[str, Fact] | None = None

    def __iter__(self) -> Iterator[Fact]:
        return iter(self._facts)

    def of(self, *types: str, attempt: int | None = None) -> list[Fact]:
        """Facts of these types; with `attempt`, only those of that very attempt."""
        return [fact for fact in self._facts if fact.type in types and (attempt is None or fact.attempt == attempt)]

    def first(self, *types: str, attempt: int | None = None) -> Fact | None:
        return next(iter(self.of(*types, attempt=attempt)), None)

    def last(self, *types: str, attempt: int | None = None) -> Fact | None:
        found = self.of(*types, attempt=attempt)
        return found[-1] if found else None

    def end_of(self, attempt: Attempt) -> Fact | None:
        """The end of the attempt's own job; an end of another job says nothing of this attempt, whoever sent it."""
        ends = self.of("AttemptEnded", attempt=attempt.number)
        return next((fact for fact in ends if attempt.job_id is None or fact.data.get("jobId") == attempt.job_id), None)

    def lost_nodes(self) -> dict[str, Fact]:
        """Slurm nodes that are lost now, each with the fact that first said so.

        A job's end of kind 'node' says it as NodeLost does, and may arrive first; the agent sends NodeReturned after either.
        One that Slurm no longer knows is not lost but gone: another node has taken its place, or will.
        """
        if self._lost is None:
            self._lost = self._find_lost()
        return dict(self._lost)

    def _find_lost(self) -> dict[str, Fact]:
        lost: dict[str, Fact] = {}
        for fact in self.of("NodeLost", "NodeReturned", "NodesChanged", "AttemptEnded"):
            if self._made_at is not None and fact.at < self._made_at:
                continue
            if fact.type == "NodeReturned":
                lost.pop(node_of(fact), None)
            if fact.type == "NodesChanged":
                away = gone_nodes(fact, lost)
                lost = {name: said for name, said in lost.items() if name not in away}
                continue
            for entry in evidence_of(fact):
                if fact.type == "NodeLost" or (fact.data.get("errorKind") == "node" and entry.get("node") == fact.data.get("failedNode")):
                    lost.setdefault(str(entry.get("node") or ""), fact)
        lost.pop("", None)
        return lost

    def members(self) -> Fact | None:
        """The newest change of Slurm's list of nodes; None while it has those that the cluster was made with."""
        found = self.last("NodesChanged")
        return found if found is not None and (self._made_at is None or found.at >= self._made_at) else None

    def newest_checkpoint(self) -> int | None:
        """Step of the newest checkpoint that is whole as far as we know."""
        rejected = {fact.data.get("path") for fact in self.of("CheckpointRejected")}
        steps = [int(fact.data.get("step", 0)) for fact in self.of("CheckpointCommitted") if fact.data.get("path") not in rejected]
        return max(steps, default=None)


def node_of(fact: Fact) -> str:
    """The Slurm node that a node fact is about."""
    for key in ("lost", "silent"):
        evidence = fact.data.get(key)
        if isinstance(evidence, dict):
            return str(evidence.get("node") or "")
    return str(fact.data.get("returned") or fact.data.get("back") or fact.data.get("node") or "")


def gone_nodes(change: Fact, names: Iterable[str]) -> set[str]:
    """Those of the names that Slurm no longer had after this change of its list.

    Of a long list only the newest is kept; of an older one it is known whom it removed.
    """
    if "nodes" in change.data:
        return set(names) - set(change.data["nodes"])
    return set(names) & set(change.data.get("removed", []))


def evidence_of(fact: Fact) -> list[dict[str, Any]]:
    """Every NodeEvidence that a fact carries."""
    single = [fact.data[key] for key in ("lost", "silent") if isinstance(fact.data.get(key), dict)]
    return single + [entry for entry in fact.data.get("nodes") or [] if isinstance(entry, dict)]


def is_dead(evidence: dict[str, Any]) -> bool:
    """Unreachable is not dead: it takes two independent signals."""
    return evidence.get("agent") == "silent" and evidence.get("scheduler") == "down"

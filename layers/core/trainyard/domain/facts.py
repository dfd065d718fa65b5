"""Facts: what happened to a run and its cluster.

A class each; those that the control plane itself makes are here.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal, TypeVar, get_args

from pydantic import Field, ValidationError

from trainyard.domain.records import Attempt, Checkpoint
from trainyard.domain.words import mark
from trainyard_contracts import places
from trainyard_contracts.events import (
    AGENT_EVENTS,
    AttemptEnded,
    CheckpointCommitted,
    CheckpointRejected,
    ExportFinished,
    Fact,
    MeetingEvent,
    NodeEvidence,
    NodeLost,
    NodeReturned,
    NodesChanged,
    RunEvent,
)
from trainyard_contracts.people import Person

F = TypeVar("F", bound=Fact)
#: completed: the program ended well everywhere. failed: it did not. host-lost: a node, or AWS
#: itself, failed. no-capacity: there were no nodes. refused: what the job asks for is wrong.
#: out-of-time: it reached a limit of its own. stopped: somebody stopped it.
JobEnd = Literal[
    "completed", "failed", "host-lost", "no-capacity", "refused", "out-of-time", "stopped"
]


class ClusterFailed(Fact):
    """The making of the cluster ended badly, or it is lost for good."""

    cluster_name: str = ""
    generation: int | None = None
    reason: str = ""


class CapacityTried(Fact):
    """The cluster is asked of AWS in one of the ways that its spec names."""

    number: int = 1
    way: str = ""
    hourly_usd: float | None = None
    begins_at: datetime | None = None


class CapacityRefused(Fact):
    """AWS had no capacity in this way; the next one is tried when what was made is gone."""

    number: int = 1
    way: str = ""
    reason: str = ""


class PriceInForce(Fact):
    """What an hour of the cluster's nodes costs from this moment on, for all that anybody knows."""

    cluster_name: str = ""
    generation: int | None = None
    hourly_usd: float | None = None
    #: list: AWS's price list, as it was then. given: a person's word in the spec.
    source: Literal["list", "given", ""] = ""
    #: Of nodes that a job brings with it, and takes away.
    by_job: bool = False
    nodes: int = 1
    workers: int = 1


class TryGone(Fact):
    """What was made of a try for capacity is gone, and costs nothing any more."""

    cluster_name: str = ""
    generation: int | None = None


class ClusterDeleted(Fact):
    """AWS has the cluster no more."""

    cluster_name: str = ""
    generation: int | None = None


class ArchiveEnded(Fact):
    """The cluster's own filesystem was exported to its archive before a deletion, or was not."""

    verified: bool = False
    number: int = 1
    generation: int | None = None
    words: str = ""


class ClusterLost(Fact):
    """The controller is silent, and AWS says that it is gone, too."""

    generation: int | None = None
    reason: str = ""


class ClusterState(Fact):
    """The backend's word for the cluster changed."""

    status: str = ""
    failure_message: str = ""


class ClusterEvent(Fact):
    """The backend tells something of the cluster that is no mere information."""

    description: str = ""
    level: str = ""
    instance_id: str = ""
    event_id: str = ""
    failure_message: str = ""
    #: Those whose nodes it is about; [] where the backend does not say.
    partitions: list[str] = Field(default_factory=list)


class LifecycleFailed(ClusterEvent):
    """A lifecycle script failed on a node."""


class JobStage(Fact):
    """The backend says how far the job of an attempt is, where a job has stages there."""

    run_id: str
    attempt: int
    job_id: str = ""
    words: str = ""
    #: AWS has no nodes for it yet.
    lacks: bool = False


class JobEnded(Fact):
    """The backend says that the job of an attempt is over, and how, in its own words, too.

    After it nothing of the job runs. Its nodes went with it.
    """

    run_id: str
    attempt: int
    job_id: str = ""
    how: JobEnd = "failed"
    reason: str = ""


class NodeHealth(Fact):
    """The backend's health agent judged an instance; it may reboot or replace it."""

    instance_id: str = ""
    status: str = ""
    reason: str = ""
    repair_action: str = ""


class CancelRequested(Fact):
    """A person wants this life of the run to end, or a schedule or an array does.

    `by`: None of the latter two, whose `reason` says who they are.
    """

    life: int
    by: Person | None = None
    reason: str = ""


class TeamBudgetSpent(Fact):
    """A budget that several runs share is used up, and this life of the run counts for it."""

    life: int
    budget: str
    reason: str


class ExportRequested(Fact):
    """A person wants an export of what this life has so far."""

    life: int
    by: Person | None = None


class ResumeRequested(Fact):
    """A person gave the ended run another life."""

    life: int
    by: Person | None = None


class UnsavedRun(Fact):
    """This generation of the cluster holds the only copy of the run's checkpoints."""

    run_id: str
    generation: int | None = None


class SavedRun(Fact):
    """What UnsavedRun said is over: a verified export holds them."""

    run_id: str
    generation: int | None = None


class IdleAndSilent(Fact):
    """The sweep first found the cluster idle while its controller was silent."""


OWN: tuple[type[Fact], ...] = (
    ClusterFailed, CapacityTried, CapacityRefused, ClusterDeleted, ClusterLost, ClusterState,
    ClusterEvent, LifecycleFailed, NodeHealth, CancelRequested, ExportRequested, ResumeRequested,
    TeamBudgetSpent,
    UnsavedRun, SavedRun, IdleAndSilent, JobStage, JobEnded, ArchiveEnded, PriceInForce, TryGone,
)  # fmt: skip
#: Those that say of which attempt they are, and of which run.
OF_AN_ATTEMPT = (RunEvent, MeetingEvent, JobStage, JobEnded)
OF_A_RUN = (*OF_AN_ATTEMPT, ExportFinished, UnsavedRun, SavedRun)
CLASSES: Mapping[str, type[Fact]] = {**AGENT_EVENTS, **{cls.__name__: cls for cls in OWN}}


class Unreadable(Fact):
    """A stored fact of a class that this version does not know or cannot read.

    It decides nothing, and its cluster is kept.
    """


def type_of(fact: Fact) -> str:
    """The name by which the table and the timeline know the fact."""
    return type(fact).__name__


def attempt_of(fact: Fact) -> int | None:
    """The attempt of the run that it is about."""
    return fact.attempt if isinstance(fact, OF_AN_ATTEMPT) else None


def run_of(fact: Fact) -> str | None:
    """The run that it is about."""
    return fact.run_id if isinstance(fact, OF_A_RUN) else None


def data_of(fact: Fact) -> dict[str, Any]:
    """Its fields as JSON has them, in camelCase."""
    return fact.model_dump(mode="json", by_alias=True)


def restored(
    type_: str, identity: str, at: datetime, attempt: int | None, data: Mapping[str, Any]
) -> Fact:
    """The fact that was stored so; Unreadable where it cannot be read."""
    # Of a long list of names only the newest facts keep the whole; older ones of their kind say
    # only what changed.
    given = {**({"nodes": []} if "nodesCount" in data else {}), **data, "id": identity, "at": at}
    if (
        "attempt" in data
    ):  # a fact of a cluster is recorded with all its runs, and met an attempt of one of them
        given["attempt"] = attempt
    try:
        return CLASSES[type_].model_validate(given)
    except (KeyError, ValidationError):
        return Unreadable(id=identity, at=at)


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


def job_ended(
    job_id: str, run_id: str, attempt: int, how: str, reason: str, at: datetime
) -> JobEnded | None:
    """The end of a job, the same fact for the same job; None for a word that is none of ours."""
    if how not in get_args(JobEnd):
        return None
    return JobEnded.model_validate(
        {
            "id": f"job-ended-{job_id}",
            "at": at,
            "run_id": run_id,
            "attempt": attempt,
            "job_id": job_id,
            "how": how,
            "reason": reason[:2000],
        }
    )


#: By how a job ended, the outcome of its program if that did not tell its end itself.
_OUTCOMES: Mapping[str, Literal["succeeded", "failed", "cancelled"]] = {
    "completed": "succeeded",
    "stopped": "cancelled",
}


def joined(over: JobEnded, told: AttemptEnded | None) -> AttemptEnded:
    """The end of a job by the backend's word and its program's: the program knows better why.

    A program that ended well did so whatever came after it. One that did not may have met the loss
    of another node only, or been stopped: that the backend knows better.
    """
    outcome = _OUTCOMES.get(over.how, "failed")
    if told is not None and told.outcome == "succeeded":
        return told
    if told is not None and over.how == "stopped":
        return told.changed(outcome="cancelled")
    if told is not None:
        return told
    ended_well = outcome == "succeeded"
    return AttemptEnded(
        id=_identity(over.id),
        at=over.at,
        cluster_name=_NO_CLUSTER,
        cluster_arn="",
        run_id=over.run_id,
        attempt=over.attempt,
        job_id=over.job_id,
        outcome=outcome,
        error=None if ended_well else over.reason,
        lasting=over.how == "refused",
        remark="The program itself did not tell its end." if ended_well else "",
    )


#: No node sent such an event.
_NO_CLUSTER = "-"
_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def _identity(text: str) -> str:
    """An id of an agent's event, always the same for the same text."""
    number = int.from_bytes(sha256(text.encode()).digest()[:17], "big")
    return "".join(_DIGITS[number >> 5 * place & 31] for place in range(26))


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


def gone_nodes(change: NodesChanged, names: Iterable[str]) -> set[str]:
    """Those of the names that Slurm no longer had after this change of its list.

    The whole of a long list is stored only for the newest change; an older change has its removals.
    """
    return set(names) - set(change.nodes) if change.nodes else set(names) & set(change.removed)


def evidence_of(fact: Fact) -> list[NodeEvidence]:
    """Every NodeEvidence that a fact carries."""
    if isinstance(fact, NodeLost):
        return [fact.about]
    return list(fact.nodes) if isinstance(fact, AttemptEnded) else []


def is_dead(evidence: NodeEvidence) -> bool:
    """Unreachable is not dead: it takes two independent signals."""
    return evidence.agent == "silent" and evidence.scheduler == "down"

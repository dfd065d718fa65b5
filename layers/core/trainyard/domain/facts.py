"""Facts: what happened to a run and its cluster.

A class each; those that the control plane itself makes are here.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from trainyard.domain.capacity_facts import CapacityRefused, CapacityTried, PriceInForce, TryGone
from trainyard.domain.cluster_facts import (
    ArchiveEnded,
    ClusterDeleted,
    ClusterEvent,
    ClusterFailed,
    ClusterLost,
    ClusterState,
    IdleAndSilent,
    LifecycleFailed,
    NodeHealth,
)
from trainyard.domain.job_facts import JobEnded, JobStage, SavedRun, UnsavedRun
from trainyard.domain.order_facts import (
    CancelRequested,
    ExportRequested,
    ResumeRequested,
    TeamBudgetSpent,
)
from trainyard_contracts.events import AGENT_EVENTS, ExportFinished, Fact, MeetingEvent, RunEvent

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

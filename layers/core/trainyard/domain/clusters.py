"""Whether a cluster that is being made is ready, has failed and why, or is on its way. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Literal

from trainyard.domain import adoption as adoption_rules
from trainyard.domain import capacity, capacity_refusals
from trainyard.domain.book import Book
from trainyard.domain.capacity_refusals import Refusal, classify
from trainyard.domain.cluster_facts import ClusterEvent, ClusterState, LifecycleFailed
from trainyard.domain.problems import problem
from trainyard.domain.records import Adoption, Cluster, Problem
from trainyard.domain.states import BackendStatus, NodeState
from trainyard_contracts.events import AgentSilent, ClusterReady, Fact, NodesChanged, NodeUnhealthy

#: A cluster that is being made or deleted is described this often, in case no event tells of it.
LOOK_SECONDS = 60
#: A cluster that DescribeCluster does not know counts as gone only when it is older than this: a
#: new one may not be visible at once.
VISIBLE_SECONDS = 120
#: So many failures of lifecycle scripts end the making of a cluster, or as many as there are
#: workers, since of a thousand nodes three may fail for a reason that passes. Continuous
#: provisioning would repeat the script without end and bill for it.
LIFECYCLE_FAILURES = 3
#: A node whose Slurm daemon does not run for so long ends the making of a cluster: something starts
#: the daemon anew in less than a second each time, so it will not run by itself any more.
SLURM_DOWN_SECONDS = 300
RESTORING = "Its nodes are ready; FSx lists what the archive holds."
#: The agents' check of the Slurm daemon.
SLURM_CHECK = "slurm-daemon"


@dataclass(frozen=True)
class ClusterDecision:
    """Where the cluster's machine goes next.

    `stop`: the cluster is ready already, or someone deletes it. `create`: its turn has come.
    """

    next: Literal["await", "ready", "fail", "stop", "create"]
    reason: str
    problem: Problem | None = None
    in_service: bool = False
    timeout_seconds: int = LOOK_SECONDS


@dataclass(frozen=True)
class Seen:
    """What the backend says of the cluster and its controller.

    None instead where there is no such cluster.
    """

    status: BackendStatus
    failure_message: str = ""
    controller: NodeState | None = None


def judge(
    cluster: Cluster, facts: Iterable[Fact], seen: Seen | None, now: datetime, deadline_seconds: int
) -> ClusterDecision:
    """Decide where the making of a cluster goes next."""
    if cluster.status in ("Ready", "Failed", "Deleting", "Deleted"):
        return ClusterDecision("stop", f"The cluster is {cluster.status}.")
    book = Book([fact for fact in facts if fact.at >= cluster.created_at])
    if cluster.problem is not None:
        return ClusterDecision("fail", cluster.problem.detail, cluster.problem)
    if cluster.adoption is not None:
        return _adopted(cluster, cluster.adoption, book, seen, now, deadline_seconds)
    if cluster.status == "Pending" and cluster.not_before is not None:
        return _turn(cluster.not_before, now)
    if cluster.spec.nodes_come_with_jobs and cluster.arn is not None:
        return ClusterDecision("ready", "Its nodes come with each job: there is none to wait for.")
    if book.of(ClusterReady) and not cluster.restoring:
        return ClusterDecision("ready", "Every node joined Slurm and its agent is linked.")
    deadline = cluster.try_until or cluster.created_at + timedelta(seconds=deadline_seconds)
    found = _failure(cluster, book, seen, now, deadline)
    if found is not None:
        return ClusterDecision("fail", found.detail, found)
    next_look = min(filter(None, (deadline, capacity.gives_up_at(cluster, book))))
    left = max(1, min(LOOK_SECONDS, int((next_look - now).total_seconds()) + 1))
    return ClusterDecision(
        "await",
        RESTORING if book.of(ClusterReady) else _reason(book, seen),
        in_service=seen is not None and seen.status == BackendStatus.IN_SERVICE,
        timeout_seconds=left,
    )


def _adopted(
    cluster: Cluster,
    adoption: Adoption,
    book: Book,
    seen: Seen | None,
    now: datetime,
    deadline_seconds: int,
) -> ClusterDecision:
    """Of a cluster that others made: it is ready when its nodes have the agent."""
    if seen is None or seen.status in (BackendStatus.DELETING, BackendStatus.FAILED):
        what = "is gone" if seen is None else f"is {seen.status}"
        found = problem("adoption-failed", f"Cluster '{cluster.name}' {what} at AWS.")
        return ClusterDecision("fail", found.detail, found)
    if book.of(ClusterReady) and adoption.lacking == 0:
        return ClusterDecision("ready", "Its nodes have the agent, and it is linked.")
    if now >= cluster.created_at + timedelta(seconds=deadline_seconds):
        reasons = [node.reason for node in adoption.nodes.values() if node.reason]
        said = f" The last reason: {reasons[-1]}" if reasons else ""
        late = f"Cluster '{cluster.name}' was not ready within {deadline_seconds} s.{said}"
        found = problem("adoption-failed", late)
        return ClusterDecision("fail", found.detail, found)
    waits = "" if adoption.lacking is None else f" {adoption.lacking} of its nodes wait for it."
    words = f"The agent is installed on its nodes.{waits}"
    # Nothing but a look at the nodes says how far they are, until the agent speaks.
    seconds = LOOK_SECONDS if adoption.lacking == 0 else adoption_rules.LOOK_SECONDS
    return ClusterDecision("await", words, timeout_seconds=seconds)


def _turn(begins: datetime, now: datetime) -> ClusterDecision:
    """A cluster that is tried again waits for its turn."""
    left = int((begins - now).total_seconds()) + 1
    if now >= begins:
        return ClusterDecision("create", "Its turn has come.", timeout_seconds=1)
    return ClusterDecision(
        "await",
        f"AWS had no capacity in any way; it is asked again at {begins:%H:%M:%S} UTC.",
        timeout_seconds=min(left, LOOK_SECONDS),
    )


def without_slurm(book: Book) -> NodeUnhealthy | None:
    """The oldest report of a Slurm daemon that still does not run; None if all do.

    What a node last said counts until it is silent or away.
    """
    newest = {fact.node: fact for fact in book.of(NodeUnhealthy) if fact.check == SLURM_CHECK}
    down = [fact for fact in newest.values() if fact.severity == "error" and not _left(book, fact)]
    return min(down, key=lambda fact: fact.at, default=None)


def _left(book: Book, report: NodeUnhealthy) -> bool:
    silent = (fact.about.node for fact in book.of(AgentSilent) if fact.at > report.at)
    changes = (fact.removed for fact in book.of(NodesChanged) if fact.at > report.at)
    return report.node in {*silent, *chain.from_iterable(changes)}


def _reason(book: Book, seen: Seen | None) -> str:
    down = without_slurm(book)
    if down is not None:
        return f"Slurm does not run on a node: {down.detail}"
    return (
        "The cluster is in service; its nodes join."
        if seen and seen.status == BackendStatus.IN_SERVICE
        else "AWS makes the cluster."
    )


def _failure(
    cluster: Cluster, book: Book, seen: Seen | None, now: datetime, deadline: datetime
) -> Problem | None:
    age = (now - cluster.created_at).total_seconds()
    if seen is not None and seen.status == BackendStatus.FAILED:
        event = book.last(ClusterState)
        message = seen.failure_message or (event.failure_message if event else "")
        return _with_first_word(cluster, book, failure(message or "AWS gave no reason."))
    if seen is not None and seen.controller == NodeState.FAILURE:
        return problem(
            "cluster-failed",
            f"The controller of cluster '{cluster.name}' was lost before the cluster was ready: "
            "it is in Failure.",
        )
    down = without_slurm(book)
    if down is not None and now >= down.at + timedelta(seconds=SLURM_DOWN_SECONDS):
        return problem(
            "cluster-failed",
            f"Slurm did not run on a node for {SLURM_DOWN_SECONDS} s: {down.detail}",
        )
    broken = book.of(LifecycleFailed)
    if len(broken) >= max(LIFECYCLE_FAILURES, cluster.spec.worker_count()):
        return problem(
            "lifecycle-failed",
            broken[-1].description or "A lifecycle script failed again and again.",
        )
    if (
        cluster.arn is not None
        and (seen is None or seen.status == BackendStatus.DELETING)
        and age > VISIBLE_SECONDS
    ):
        return problem(
            "cluster-failed",
            f"Cluster '{cluster.name}' was deleted outside Trainyard while it was made.",
        )
    return _without_nodes(cluster, book, now, deadline)


def _without_nodes(
    cluster: Cluster, book: Book, now: datetime, deadline: datetime
) -> Problem | None:
    scripts = {fact.id for fact in book.of(LifecycleFailed)}
    events = [fact for fact in book.of(ClusterEvent) if fact.id not in scripts]
    if (found := capacity.forbidden(events)) is not None:
        return found
    if now >= deadline:
        began = cluster.tries[0].began_at if cluster.tries else cluster.created_at
        seconds = round((deadline - began).total_seconds())
        return _overdue(book, f"Cluster '{cluster.name}' was not ready within {seconds} s.")
    return capacity.refused(cluster, book, now)


def _with_first_word(cluster: Cluster, book: Book, found: Problem) -> Problem:
    """A backend may give up with words for its wait; AWS had said before what it lacks."""
    word = capacity_refusals.first_word(book.of(ClusterEvent))
    if not cluster.tries or word is None or found.code != "cluster-failed":
        return found
    return problem("no-capacity", f"{found.detail} AWS had said: {word.failure_message}")


def _overdue(book: Book, late: str) -> Problem:
    """The problem of a cluster that is not ready in time.

    Continuous provisioning never fails, but tries again without end; its events say why.
    """
    reasons = [fact.failure_message for fact in book.of(ClusterEvent) if fact.failure_message]
    wanting = [reason for reason in reasons if classify(reason) == Refusal.CAPACITY]
    if wanting:
        return problem("no-capacity", f"{late} AWS said: {wanting[-1]}")
    return problem("cluster-deadline", f"{late} AWS said: {reasons[-1]}" if reasons else late)


def failure(message: str) -> Problem:
    """AWS's reason with the code that fits it."""
    lower = message.lower()
    if "lifecycle script" in lower or "lifecycle scripts" in lower:
        return problem("lifecycle-failed", message)
    if classify(message) == Refusal.CAPACITY:
        return problem("no-capacity", message)
    return problem("cluster-failed", message)

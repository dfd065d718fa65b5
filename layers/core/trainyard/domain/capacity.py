"""What AWS's refusals are, and which way a cluster is tried next where AWS has no capacity."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from trainyard.domain.book import Book
from trainyard.domain.capacity_refusals import Refusal, classify, first_word
from trainyard.domain.cluster_facts import ClusterEvent
from trainyard.domain.problems import problem
from trainyard.domain.records import CapacityTry, Cluster, Problem
from trainyard.domain.words import duration
from trainyard_contracts.cluster_base import TRY_SECONDS, ClusterBase, Way
from trainyard_contracts.cluster_specs import ClusterSpec

#: After a round in which no way had capacity; each later pause is twice as long, and longer by up
#: to a quarter, so that clusters that were refused at one moment do not ask again at one moment.
FIRST_PAUSE_SECONDS = 60
LONGEST_PAUSE_SECONDS = 3600
SPREAD = 0.25
#: Tries that a record keeps, the first and the newest; `number` goes on counting.
MOST_TRIES = 60


def all_ways(spec: ClusterBase, otherwise: Sequence[ClusterBase] = ()) -> list[Way]:
    """The ways of a spec, and after them those of the whole specs that may take its place.

    [] where there is one only.
    """
    if not otherwise:
        return spec.ways
    return [
        way._replace(words=f"{one.backend}: {way.words}")
        for one in (spec, *otherwise)
        for way in one.ways or [Way(one, one.in_words, TRY_SECONDS)]
    ]


def first_try(
    spec: ClusterSpec, at: datetime, otherwise: Sequence[ClusterSpec] = ()
) -> CapacityTry | None:
    """The first try of a cluster with several ways; None where there is one only."""
    ways = all_ways(spec, otherwise)
    return CapacityTry(number=1, way=ways[0].words, began_at=at) if ways else None


def way_of(cluster: Cluster, number: int) -> Way:
    """The way of a try."""
    ways = _ways(cluster)
    return ways[(number - 1) % len(ways)]


def _ways(cluster: Cluster) -> list[Way]:
    assert cluster.asked is not None
    return all_ways(cluster.asked, cluster.otherwise)


def next_try(cluster: Cluster, now: datetime) -> CapacityTry | None:
    """The try that follows the one that AWS had no capacity for; None if there is none."""
    last = cluster.tries[-1] if cluster.tries else None
    wanting = cluster.problem is not None and cluster.problem.code == "no-capacity"
    if last is None or last.ended_at is None or not wanting or cluster.given_up:
        return None
    assert cluster.try_until is not None
    ways = _ways(cluster)
    number = _next_number(cluster, last.number, ways)
    pause = _pause(cluster.name, number, len(ways), last.number)
    begins = last.ended_at + timedelta(seconds=pause)
    if begins >= cluster.try_until:  # a last round, rather than none until the deadline
        sooner = cluster.try_until - timedelta(seconds=FIRST_PAUSE_SECONDS)
        begins = max(sooner, last.ended_at + timedelta(seconds=min(pause, FIRST_PAUSE_SECONDS)))
    if max(begins, now) >= cluster.try_until:
        return None
    return CapacityTry(number=number, way=way_of(cluster, number).words, began_at=begins)


def _next_number(cluster: Cluster, last: int, ways: Sequence[Way]) -> int:
    """The one after the last, or the next one of the same backend where no other may be."""
    number = last + 1
    while cluster.bound and ways[(number - 1) % len(ways)].spec.backend != cluster.backend:
        number += 1
    return number


def _pause(name: str, number: int, ways: int, last: int) -> int:
    """Within a round there is none. The same try always has the same pause."""
    round_ = (number - 1) // ways
    if round_ == (last - 1) // ways:
        return 0
    seconds = min(FIRST_PAUSE_SECONDS * 2 ** min(round_ - 1, 10), LONGEST_PAUSE_SECONDS)
    spread = zlib.crc32(f"{name}/{number}".encode()) / 2**32
    return int(seconds * (1 + SPREAD * spread))


def ended(cluster: Cluster, reason: str, now: datetime) -> Cluster:
    """The cluster with its newest try over."""
    if not cluster.tries or cluster.tries[-1].ended_at is not None:
        return cluster
    last = cluster.tries[-1].changed(ended_at=now, reason=reason[:500])
    return cluster.changed(tries=[*cluster.tries[:-1], last])


def wanting(
    cluster: Cluster, reason: str, now: datetime, until: datetime | None, *, bound: bool = False
) -> Cluster:
    """A cluster that was ready, and whose jobs get no nodes: its newest try is over.

    `until` is the deadline of this want. That of the cluster's making may be over for days.
    """
    found = problem("no-capacity", reason)
    over = cluster.changed(problem=found, try_until=until, bound=cluster.bound or bound)
    return ended(over, reason, now)


def successor(cluster: Cluster, following: CapacityTry, now: datetime) -> Cluster:
    """The record of the next try, with nothing of what the last one made."""
    return Cluster(
        name=cluster.name,
        spec=way_of(cluster, following.number).spec.changed(name=cluster.name),
        asked=cluster.asked,
        otherwise=cluster.otherwise,
        bound=cluster.bound,
        tries=[*cluster.tries[:1], *cluster.tries[1:][2 - MOST_TRIES :], following],
        try_until=cluster.try_until,
        not_before=following.began_at,
        generation=cluster.generation + 1,
        version=cluster.version + 1,
        created_at=now,
        updated_at=now,
        last_used_at=now,
        owner_run=cluster.owner_run,
        idempotency_key=cluster.idempotency_key,
        signs_events=cluster.signs_events,
    )


def refused(cluster: Cluster, book: Book, now: datetime) -> Problem | None:
    """That AWS had no capacity for longer than the try may last; None before."""
    first = first_word(book.of(ClusterEvent))
    if first is None or not cluster.tries:
        return None
    seconds = way_of(cluster, cluster.tries[-1].number).try_for_seconds
    if now < first.at + timedelta(seconds=seconds):
        return None
    return problem("no-capacity", f"For {duration(seconds)} AWS said: {first.failure_message}")


def gives_up_at(cluster: Cluster, book: Book) -> datetime | None:
    """When `refused` will say so; None while AWS has not said that it has no capacity."""
    first = first_word(book.of(ClusterEvent))
    if first is None or not cluster.tries:
        return None
    way = way_of(cluster, cluster.tries[-1].number)
    return first.at + timedelta(seconds=way.try_for_seconds)


#: A role that was made a moment ago may not be known everywhere: only what is said for so long is
#: believed.
PERMISSION_SECONDS = 240
_STEPS = {
    Refusal.QUOTA: "No other way helps: ask for a higher quota in Service Quotas, or for fewer or "
    "smaller instances.",
    Refusal.PERMISSION: "No other way helps: let the role do what the message names.",
}


def forbidden(events: Iterable[ClusterEvent]) -> Problem | None:
    """That AWS refuses nodes for a reason that only a person can mend; None if it does not."""
    told = [(classify(one.failure_message), one) for one in events]
    quota = [one for kind, one in told if kind == Refusal.QUOTA]
    denied = [one for kind, one in told if kind == Refusal.PERMISSION]
    if denied and (denied[-1].at - denied[0].at).total_seconds() < PERMISSION_SECONDS:
        denied = []
    kind = Refusal.QUOTA if quota else Refusal.PERMISSION
    for one in (*quota, *denied):
        said = f"{one.description.rstrip('.')}: {one.failure_message.rstrip('.')}".lstrip(": ")
        return problem("backend-rejected", f"AWS gives no nodes. {said}. {_STEPS[kind]}")
    return None


def exhausted(cluster: Cluster) -> Problem | None:
    """The problem of a cluster that no way had capacity for, with what each way's last word was."""
    if len(cluster.tries) < 2 or cluster.problem is None or cluster.problem.code != "no-capacity":
        return cluster.problem
    last = {one.way: one.reason for one in cluster.tries}
    tried = "; ".join(f"{way}: {reason}" for way, reason in last.items())
    count = cluster.tries[-1].number
    return problem("no-capacity", f"None of {count} tries found capacity. {tried}"[:4000])

"""Clusters that nobody uses are deleted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from trainyard.app.clusters.cluster_use import blocker_of
from trainyard.app.clusters.create_cluster import start_teardown
from trainyard.app.facts.situation import silent_since
from trainyard.app.sweep.swept import Swept
from trainyard.domain import idle
from trainyard.domain.book import Book
from trainyard.domain.cluster_facts import ClusterLost, IdleAndSilent
from trainyard.domain.records import Cluster
from trainyard.ports import Ports


def idle_cluster(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """A cluster that no run used for its limit is deleted, unless something would be lost.

    One that is gone is closed.
    """
    if cluster.status not in ("Ready", "Stopped"):
        return
    over = ports.clock.now() > idle.ends_at(cluster)
    lost = any(
        fact.generation == cluster.generation
        for fact in Book(ports.clusters.facts(cluster.name)).of(ClusterLost)
    )
    gone = lost and ports.backend(cluster).describe(cluster.name) is None
    if not (over or gone):
        _warn_of_end(ports, cluster)
        return
    if cluster.adoption is not None and not gone:
        return  # others made it, and it costs them whether it is ours or not
    active = ports.runs.on_cluster(cluster.name)
    reason = blocker_of(ports, cluster)
    if gone or (reason is None and _surely_idle(ports, cluster)):
        start_teardown(ports, cluster)
        why = (
            "AWS has it no more"
            if gone
            else f"no run used it for {cluster.spec.idle_limit_seconds} s"
        )
        yield Swept("teardown", cluster.name, why)
    elif over and not active and reason is not None:
        yield Swept("kept", cluster.name, reason)


def _warn_of_end(ports: Ports, cluster: Cluster) -> None:
    """People hear once of each time without use that its end comes, while they can keep it."""
    if cluster.adoption is not None or ports.clock.now() < idle.told_at(cluster):
        return
    newest = ports.clusters.get(cluster.name)  # the list may be older
    now = ports.clock.now()
    if newest.idle_since != cluster.idle_since or newest.status != cluster.status:
        return
    if blocker_of(ports, newest) is None:
        ports.clusters.tell(newest.name, idle.notice(newest, now))


def _surely_idle(ports: Ports, cluster: Cluster) -> bool:
    """A cluster whose controller is silent counts as idle only after we listened for a while.

    A table that was restored from a backup lacks the newer heartbeats.
    """
    last = silent_since(ports, cluster)
    if last is None:
        return True
    now = ports.clock.now()
    fact_id = f"idle-and-silent-{cluster.name}-{cluster.generation}-{last:%Y%m%dT%H%M%S%f}"
    ports.clusters.record(cluster.name, IdleAndSilent(id=fact_id, at=now))
    first = next(
        (fact.at for fact in ports.clusters.facts(cluster.name) if fact.id == fact_id), now
    )
    return now - first >= timedelta(seconds=ports.config.orphan_seconds)

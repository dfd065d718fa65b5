"""Tries a cluster in the ways that its spec names, one after the other, while AWS has no capacity.

The tries of a name are generations of its record. The next one is stored when what the last one
made is gone, so there are never two.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from trainyard.app.clusters.prices import price_of
from trainyard.domain import capacity
from trainyard.domain.errors import RecordUnreadable, RunNotFound
from trainyard.domain.records import CapacityTry, Cluster
from trainyard.ports import Ports
from trainyard_contracts.cluster_base import ClusterBase

DEFAULT_DEADLINE_SECONDS = 3600
#: The most that a spec may ask for.
LONGEST_DEADLINE_SECONDS = 86400


def deadline_seconds(ports: Ports, cluster: Cluster) -> int:
    """The limit of the run that the cluster was made for, or an hour.

    The longest where this version cannot read the run.
    """
    if cluster.owner_run is None:
        return DEFAULT_DEADLINE_SECONDS
    try:
        return ports.runs.get(cluster.owner_run).spec.limits.cluster_deadline_seconds
    except RunNotFound:
        return DEFAULT_DEADLINE_SECONDS
    except RecordUnreadable:
        return LONGEST_DEADLINE_SECONDS


def in_its_first_way(ports: Ports, cluster: Cluster) -> Cluster:
    """A new cluster as it is tried first; unchanged where its spec names no ways."""
    first = capacity.first_try(cluster.spec, cluster.created_at, cluster.otherwise)
    if first is None:
        return cluster
    way = capacity.all_ways(cluster.spec, cluster.otherwise)[0]
    return cluster.changed(
        spec=way.spec,
        asked=cluster.spec,
        tries=[_priced(ports, cluster, way.spec, first)],
        try_until=cluster.created_at + timedelta(seconds=deadline_seconds(ports, cluster)),
    )


def successor_of(ports: Ports, cluster: Cluster, now: datetime) -> Cluster | None:
    """The record of the next try; None where there is none, or nobody waits for it."""
    following = capacity.next_try(cluster, now)
    if following is None or owner_is_over(ports, cluster):
        return None
    way = capacity.way_of(cluster, following.number)
    return capacity.successor(cluster, _priced(ports, cluster, way.spec, following), now)


def give_up(ports: Ports, cluster: Cluster) -> Cluster:
    """No further try: somebody wants the cluster deleted."""
    if not cluster.tries or cluster.given_up:
        return cluster
    return ports.clusters.put(cluster.changed(given_up=True))


def _priced(ports: Ports, cluster: Cluster, spec: ClusterBase, one: CapacityTry) -> CapacityTry:
    return one.changed(hourly_usd=price_of(ports, spec)[0])


def owner_is_over(ports: Ports, cluster: Cluster) -> bool:
    """Whether the run that the cluster is tried for is known to be over."""
    if cluster.owner_run is None:
        return False
    try:
        return ports.runs.get(cluster.owner_run).outcome is not None
    except (RunNotFound, RecordUnreadable):
        return False

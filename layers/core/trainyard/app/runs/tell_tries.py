"""Says to a cluster's runs which ways of its spec are tried, and why one is left."""

from __future__ import annotations

from trainyard.app.facts.tell_runs import tell_runs
from trainyard.domain.capacity_facts import CapacityRefused, CapacityTried
from trainyard.domain.records import Cluster
from trainyard.ports import Ports


def tell_try(ports: Ports, cluster: Cluster) -> None:
    """Say which way is tried now, to the cluster and to its runs. Again changes nothing.

    By this the run whose own cluster it is takes the new generation for its own.
    """
    if not cluster.tries:
        return
    newest = cluster.tries[-1]
    fact = CapacityTried(
        id=f"capacity-tried-{cluster.name}-{cluster.generation}",
        at=cluster.created_at,
        number=newest.number,
        way=newest.way,
        hourly_usd=newest.hourly_usd,
        begins_at=newest.began_at if newest.began_at > cluster.created_at else None,
    )
    ports.clusters.record(cluster.name, fact)
    tell_runs(ports, cluster, fact)


def tell_refusal(ports: Ports, cluster: Cluster) -> CapacityRefused:
    """Say why this way is left, to the cluster and to its runs. Again changes nothing."""
    newest = cluster.tries[-1]
    fact = CapacityRefused(
        id=f"capacity-refused-{cluster.name}-{cluster.generation}",
        at=newest.ended_at or cluster.updated_at,
        number=newest.number,
        way=newest.way,
        reason=newest.reason,
    )
    ports.clusters.record(cluster.name, fact)
    tell_runs(ports, cluster, fact)
    return fact

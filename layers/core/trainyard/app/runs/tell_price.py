"""What an hour of a cluster costs, and since when: a fact of the cluster and of its runs."""

from __future__ import annotations

from trainyard.app.clusters.prices import price_of
from trainyard.app.facts.tell_runs import tell_runs
from trainyard.domain.capacity_facts import PriceInForce
from trainyard.domain.records import Cluster
from trainyard.ports import Ports


def note_price(ports: Ports, cluster: Cluster, *, key: str = "") -> None:
    """Record the price of now, once for each `key`, before anything is made that is billed."""
    hourly, source = price_of(ports, cluster.spec)
    groups = cluster.spec.groups()
    fact = PriceInForce(
        id=f"price-{cluster.name}-{cluster.generation}{key}",
        at=ports.clock.now(),
        cluster_name=cluster.name,
        generation=cluster.generation,
        hourly_usd=hourly,
        source=source,
        by_job=cluster.spec.nodes_come_with_jobs,
        nodes=sum(group.count + group.spares for group in groups),
        workers=sum(group.count + group.spares for group in groups if group.role == "worker"),
    )
    if ports.clusters.record(cluster.name, fact):
        known = fact
    else:  # the first one counts, at the time that it says
        known = next(
            (
                one
                for one in ports.clusters.facts(cluster.name)
                if isinstance(one, PriceInForce) and one.id == fact.id
            ),
            fact,
        )
    tell_runs(ports, cluster, known)

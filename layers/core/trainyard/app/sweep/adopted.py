"""Nodes that came to an adopted cluster later: their own scripts do not bring our agent."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.app.clusters.adopted_nodes import install_round
from trainyard.app.sweep.swept import Swept
from trainyard.domain.records import Cluster
from trainyard.ports import Ports

#: In one sweep: it has other duties, and a minute.
AT_ONCE = 6


def adopted_nodes(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """Nodes that were replaced or added, or whose agent is silent for long, are asked for it."""
    if cluster.adoption is None or cluster.status != "Ready":
        return
    seen = ports.backend(cluster).describe(cluster.name)
    if seen is None or seen.arn != cluster.arn:
        return
    before = cluster.adoption.nodes
    after = install_round(ports, cluster, AT_ONCE)
    assert after.adoption is not None
    for instance_id, known in after.adoption.nodes.items():
        if known != before.get(instance_id):
            words = f": {known.reason}" if known.reason else ""
            yield Swept(f"agent {known.state}", f"{cluster.name} {instance_id}", f"asked{words}")

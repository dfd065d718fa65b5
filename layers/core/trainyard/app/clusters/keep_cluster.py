"""Let the idle time of a cluster begin anew, for a person who will use it soon."""

from __future__ import annotations

from trainyard.domain.errors import WrongState
from trainyard.domain.records import Cluster
from trainyard.ports import Ports


def keep_cluster(ports: Ports, name: str) -> Cluster:
    """Raises ClusterNotFound, and WrongState where it is not there (any more) to be kept."""
    cluster = ports.clusters.get(name)
    if cluster.status in ("Failed", "Deleting", "Deleted"):
        raise WrongState(
            f"Cluster '{name}' is {cluster.status}; there is nothing to keep.",
            next_step=f"Create it again once it is Deleted: trainyard cluster show {name}.",
        )
    ports.clusters.touch(name, used_at=ports.clock.now())
    return ports.clusters.get(name)

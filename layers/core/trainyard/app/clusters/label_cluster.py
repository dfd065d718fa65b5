"""Change the labels of a cluster: those that are named, and nothing else of it."""

from __future__ import annotations

from collections.abc import Mapping

from trainyard.app.clusters.labelled import labelled
from trainyard.domain.records import Cluster
from trainyard.ports import Ports


def label_cluster(
    ports: Ports,
    name: str,
    changes: Mapping[str, str | None],
    *,
    version: int | None = None,
) -> Cluster:
    """As label_run. Raises ClusterNotFound, InvalidRequest, PreconditionFailed."""
    return labelled(lambda: ports.clusters.get(name), ports.clusters.put, changes, version=version)

"""Change labels and sharing of a cluster: what is named, and nothing else of it."""

from __future__ import annotations

from collections.abc import Mapping

from trainyard.app.clusters.labelled import labelled
from trainyard.domain.errors import FieldError, InvalidRequest
from trainyard.domain.records import Cluster
from trainyard.ports import Ports
from trainyard_contracts.sharing import SharingSpec
from trainyard_contracts.slurm_cluster import SlurmCluster


def label_cluster(
    ports: Ports,
    name: str,
    changes: Mapping[str, str | None],
    *,
    sharing: SharingSpec | None = None,
    version: int | None = None,
) -> Cluster:
    """As label_run. The next sweep gives the turns for which there is room then.

    Raises ClusterNotFound, InvalidRequest, PreconditionFailed.
    """
    if sharing is not None and not isinstance(ports.clusters.get(name).spec, SlurmCluster):
        words = "each job brings its own nodes here, so nobody shares any; leave it out"
        raise InvalidRequest(f"sharing: {words}", errors=[FieldError("sharing", words)])
    return labelled(
        lambda: ports.clusters.get(name),
        ports.clusters.put,
        changes,
        version=version,
        sharing=sharing,
    )

"""Puts ParallelCluster into a local cloud, and what its nodes and clients need besides."""

from __future__ import annotations

from trainyard_local.fsx.service import Fsx
from trainyard_local.local_cloud import LocalCloud
from trainyard_local.parallelcluster import ec2, metadata, rest, send_command
from trainyard_local.parallelcluster.cluster import LocalCluster
from trainyard_local.parallelcluster.clusters import Clusters
from trainyard_local.parallelcluster.settings import Settings
from trainyard_local.slurm.cluster import Ports, short_link

_installed: dict[int, Clusters] = {}


def of(cloud: LocalCloud) -> Clusters:
    """The clusters of an installed cloud."""
    return _installed[id(cloud)]


def all_of(cloud: LocalCloud) -> list[LocalCluster]:
    """None where ParallelCluster is not played."""
    found = _installed.get(id(cloud))
    return found.all() if found is not None else []


def install(
    cloud: LocalCloud, ports: Ports, settings: Settings | None = None, fsx: Fsx | None = None
) -> Clusters:
    """Call once for a server. Without FSx, what is made with a cluster is a mere directory."""
    (cloud.state_dir / "clusters").mkdir(parents=True, exist_ok=True)
    short_link(cloud.state_dir)
    clusters = Clusters(cloud, settings or Settings.from_env(), ports, fsx)
    _installed[id(cloud)] = clusters
    cloud.paths[rest.PREFIX] = rest.Api(clusters).handle
    cloud.paths[metadata.PREFIX] = metadata.Metadata(clusters).handle
    cloud.access.resource_tags["ec2"] = clusters.tags_of
    send_command.install(clusters)
    ec2.install(clusters)
    cloud.on_shutdown.append(clusters.close)
    return clusters

"""Who uses a filesystem: clusters that are not deleted, and runs that will make one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from trainyard.domain.errors import ClusterNotFound, RecordUnreadable
from trainyard.domain.filesystem_records import Filesystem, Use
from trainyard.domain.records import Cluster, Run
from trainyard.ports import Ports
from trainyard_contracts.cluster_base import ClusterBase

#: A cluster that was given the filesystem is stored within this, or never.
STORED_SECONDS = 600


class Users(NamedTuple):
    clusters: list[str]
    runs: list[str]

    def words(self) -> list[str]:
        """Each with its kind, as a sentence names them."""
        clusters = [f"cluster '{name}'" for name in self.clusters]
        return [*clusters, *(f"run {run_id}" for run_id in self.runs)]


def users_of(ports: Ports, filesystem: Filesystem) -> Users:
    """Clusters that have it or are about to have it, and active runs on them or that name it."""
    known = {cluster.name: cluster for cluster in ports.clusters.active()}
    clusters = {name for name, one in known.items() if _may_mount(one, filesystem)}
    clusters |= {use.cluster for use in filesystem.uses if _counts(ports, filesystem, use, known)}
    runs = [run.id for run in ports.runs.active() if _needs(run, filesystem, clusters)]
    return Users(sorted(clusters), sorted(runs))


def _counts(ports: Ports, filesystem: Filesystem, use: Use, known: Mapping[str, Cluster]) -> bool:
    """An index may be old, so a cluster that it lacks is read by its name."""
    if use.cluster in known:
        return False  # its spec says it
    try:
        cluster = ports.clusters.get(use.cluster)
    except ClusterNotFound:
        return _recent(use.at, ports.clock.now())
    except RecordUnreadable:
        return True
    return cluster.status != "Deleted" and _may_mount(cluster, filesystem)


def _recent(at: datetime, now: datetime) -> bool:
    return now - at < timedelta(seconds=STORED_SECONDS)


def _needs(run: Run, filesystem: Filesystem, clusters: set[str]) -> bool:
    own = [one for one in (run.spec.cluster.spec, *run.spec.cluster.otherwise) if one]
    if run.cluster_name in clusters:
        return True
    return run.outcome is None and any(_mounts(one, filesystem) for one in own)


def _may_mount(cluster: Cluster, filesystem: Filesystem) -> bool:
    """Now, or in another way."""
    return any(_mounts(one, filesystem) for one in cluster.possible_specs)


def _mounts(spec: ClusterBase, filesystem: Filesystem) -> bool:
    """By our name for it, its id, or its DNS name: a spec may give either."""
    if filesystem.name in spec.named_filesystems().values():
        return True
    places = {filesystem.place, filesystem.fsx_id}
    return bool(filesystem.fsx_id) and not places.isdisjoint(spec.filesystems)

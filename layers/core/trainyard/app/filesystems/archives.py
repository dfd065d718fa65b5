"""The filesystem that is made with a cluster: listed from its archive, and exported to it.

It is no record of /v1/filesystems, and is exported by the same steps as one that is.
"""

from __future__ import annotations

from trainyard.domain import filesystems
from trainyard.domain.archive_records import Archive
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.records import Cluster
from trainyard.ports import Ports
from trainyard_contracts.filesystems import DataRepository, FilesystemSpec

#: The code of the problem of a cluster that is kept for it.
ARCHIVE_FAILED = "archive-failed"


def as_filesystem(cluster: Cluster) -> Filesystem:
    """As those steps take it; nobody stores it. No person's filesystem has a slash in its name."""
    archive = cluster.archive or Archive()
    repository = DataRepository(source=cluster.spec.archive)
    return Filesystem(
        name=f"cluster/{cluster.name}",
        spec=FilesystemSpec(name=cluster.name, repository=repository),
        status="Archiving",
        generation=cluster.generation,
        created_at=cluster.created_at,
        updated_at=cluster.updated_at,
        fsx_id=archive.fsx_id,
        association_id=archive.association_id,
        export=archive.export,
        waits_for=archive.waits_for,
    )


def export_asked(ports: Ports, cluster: Cluster) -> Cluster:
    """Ask the sweep, which alone changes anything at FSx, for an export; again changes nothing.

    An export that failed is followed by another one.
    """
    archive = cluster.archive or Archive()
    if archive.exporting:
        return cluster
    asked = filesystems.asked_for(as_filesystem(cluster), ports.clock.now(), "deletion")
    begun = archive.changed(export=asked.export, kept=False, waits_for="")
    return ports.clusters.put(_not_failed(cluster).changed(archive=begun))


def may_be_tried_again(ports: Ports, cluster: Cluster) -> Cluster:
    """Let a failed export no longer keep the cluster, so that its deletion tries another one."""
    if cluster.archive is None or not cluster.archive.kept:
        return cluster
    archive = cluster.archive.changed(kept=False)
    return ports.clusters.put(_not_failed(cluster).changed(archive=archive))


def _not_failed(cluster: Cluster) -> Cluster:
    """Without the problem of an export; why the cluster is left for another way stays."""
    failed = cluster.problem is not None and cluster.problem.code == ARCHIVE_FAILED
    return cluster.changed(problem=None) if failed else cluster

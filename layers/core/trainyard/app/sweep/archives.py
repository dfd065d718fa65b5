"""Takes the archive of a cluster's own filesystem a step further: listed, exported, tried again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from trainyard.app.facts.tell_runs import tell_runs
from trainyard.app.facts.waking import wake_cluster
from trainyard.app.filesystems.archives import ARCHIVE_FAILED, as_filesystem, may_be_tried_again
from trainyard.app.filesystems.serving import export_step
from trainyard.app.sweep.swept import Swept
from trainyard.domain.archive_records import Archive
from trainyard.domain.cluster_facts import ArchiveEnded
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.problems import problem
from trainyard.domain.records import Cluster
from trainyard.ports import Ports

#: A cluster that is kept because its export failed is tried again after so long.
AGAIN_SECONDS = 3600


def archive_step(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """One call of FSx and one conditional write; a crash between the two changes nothing."""
    archive = cluster.archive or Archive()
    if not cluster.spec.archive or cluster.arn is None:
        return
    if cluster.restoring and cluster.status in ("Creating", "InService"):
        yield from _restore(ports, cluster, archive)
    elif cluster.status == "Deleting" and archive.exporting and not cluster.delete_forced:
        yield from _export(ports, cluster, archive)
    elif cluster.status in ("Ready", "Stopped") and _long_ago(ports, archive):
        may_be_tried_again(ports, cluster)
        yield Swept("archive", cluster.name, "its export may be tried again")


def _restore(ports: Ports, cluster: Cluster, archive: Archive) -> Iterator[Swept]:
    """Wait until FSx has linked the filesystem, and listed what the archive holds."""
    seen = ports.lustre.made_with(cluster)
    link_id = ports.lustre.link_of(seen.fsx_id) if seen is not None else ""
    if seen is None or not link_id:
        return
    link = ports.lustre.linked(link_id)
    if link is not None and link.life == "broken":
        words = f"The link of {seen.fsx_id} to {cluster.spec.archive} is {link.said}."
        found = problem("cluster-failed", f"{words} {link.failure_message}".strip())
        ports.clusters.put(cluster.changed(problem=found))
    elif link is None or link.life != "there" or ports.lustre.busy(seen.fsx_id):
        return
    else:
        words = f"{seen.fsx_id} has the files of {cluster.spec.archive}."
        now = ports.clock.now()
        listed = archive.changed(fsx_id=seen.fsx_id, association_id=link_id, restored_at=now)
        ports.clusters.put(cluster.changed(archive=listed))
    wake_cluster(ports, cluster.name)
    yield Swept("archive", cluster.name, words)


def _export(ports: Ports, cluster: Cluster, archive: Archive) -> Iterator[Swept]:
    after = export_step(ports, as_filesystem(cluster))
    if after is None or after.export is None:
        return
    moved = cluster.changed(archive=archive.changed(export=after.export, waits_for=after.waits_for))
    if after.export.over:
        _tell(ports, cluster, after)
        if after.export.state == "failed":
            moved = _kept(moved, after.export.reason)
    ports.clusters.put(moved)
    wake_cluster(ports, cluster.name)
    if after.lines:
        yield Swept("archive", cluster.name, after.lines[-1].message)


def _kept(cluster: Cluster, reason: str) -> Cluster:
    """The deletion is over: the cluster is what it was before, and says why it is there."""
    assert cluster.archive is not None
    return cluster.changed(
        status=cluster.status_if_kept,
        archive=cluster.archive.changed(kept=True),
        problem=problem(ARCHIVE_FAILED, reason),
    )


def _tell(ports: Ports, cluster: Cluster, after: Filesystem) -> None:
    """Before the write that ends the export, so that a crash between the two tells it again."""
    assert after.export is not None
    verified = after.export.state == "verified"
    place = f"the own filesystem of cluster '{cluster.name}'"
    words = (
        f"What {place} held is in {cluster.spec.archive}. {after.lines[-1].message}"
        if verified
        else f"The cluster is not deleted, since {place} may hold what is nowhere else. "
        f"{after.export.reason}"
    )
    fact = ArchiveEnded(
        id=f"archive-ended-{cluster.name}-{cluster.generation}-{after.export.number}",
        at=after.export.ended_at or ports.clock.now(),
        verified=verified,
        number=after.export.number,
        generation=cluster.generation,
        words=words,
    )
    ports.clusters.record(cluster.name, fact)
    tell_runs(ports, cluster, fact)


def _long_ago(ports: Ports, archive: Archive) -> bool:
    if not archive.kept or archive.export is None or archive.export.ended_at is None:
        return False
    return ports.clock.now() - archive.export.ended_at >= timedelta(seconds=AGAIN_SECONDS)

"""Deletions that were asked for and did not begin."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.app.clusters.cluster_use import blocker_of
from trainyard.app.clusters.create_cluster import start_teardown
from trainyard.app.sweep.stray_jobs import run_if_there
from trainyard.app.sweep.swept import Swept
from trainyard.domain import names, teardown
from trainyard.domain.records import Cluster, Run, TimelineEntry
from trainyard.ports import Ports


def asked_deletion(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """A deletion that was asked for while the machine of an earlier one ended without any."""
    if not cluster.delete_asked or cluster.status in ("Deleting", "Deleted"):
        return
    name = names.cluster_execution(cluster.name, cluster.generation, cluster.machine_tries)
    if ports.executions.status("teardown", name) == "RUNNING":
        return
    start_teardown(ports, cluster)
    yield Swept("teardown", cluster.name, "it was asked for while an earlier one was ending")


def overdue_teardown(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """A cluster whose run is over and wanted it deleted.

    Its teardown failed for good, or another run used the cluster then.
    """
    owner = _owner(ports, cluster)
    if owner is None or not teardown.overdue(cluster, owner):
        return
    if blocker_of(ports, cluster) is not None:
        return
    message = f"Cluster '{cluster.name}' outlived the run; it is deleted now."
    entry_id = f"status-overdue-{cluster.name}-{cluster.generation}"
    ports.runs.note(
        owner.id,
        TimelineEntry(
            id=entry_id, at=ports.clock.now(), kind="status", type="ClusterOverdue", message=message
        ),
    )
    start_teardown(ports, cluster)
    yield Swept("teardown", cluster.name, f"run {owner.id} is {owner.status} and wanted it deleted")


def _owner(ports: Ports, cluster: Cluster) -> Run | None:
    return run_if_there(ports, cluster.owner_run) if cluster.owner_run else None

"""Whether a cluster may be deleted now.

Its runs, the checkpoints that only it holds, and people's jobs may each forbid it.
"""

from __future__ import annotations

from datetime import timedelta

from trainyard.app.clusters.list_nodes import newest_heartbeats
from trainyard.domain.records import Cluster
from trainyard.domain.teardown import blocker
from trainyard.ports import Ports
from trainyard_contracts.events import OtherJobs

#: What a controller said so long ago about people's jobs says nothing about now.
KNOWN_SECONDS = 3600
#: Queued jobs keep a cluster so long after it was used last: where none started in that time, none
#: will.
QUEUED_SECONDS = 86400


def blocker_of(ports: Ports, cluster: Cluster) -> str | None:
    """Why it must not be deleted now, or None."""
    runs, facts = ports.runs.on_cluster(cluster.name), ports.clusters.facts(cluster.name)
    unread = ports.runs.unreadable_on(cluster.name)
    return blocker(cluster, runs, facts, other_jobs(ports, cluster), unread)


def used_by(ports: Ports, cluster: Cluster, *, forced: bool = False) -> str | None:
    """Which runs or people use it now, or None; `forced` gives up people's jobs.

    What it holds does not matter here: nothing of it is deleted.
    """
    runs, unread = ports.runs.on_cluster(cluster.name), ports.runs.unreadable_on(cluster.name)
    others = None if forced else other_jobs(ports, cluster)
    kept = cluster.changed(status="Ready", archive=None)
    return blocker(kept, runs, (), others, unread)


def resting(cluster: Cluster | None) -> tuple[str, str] | None:
    """Why a cluster that was ready serves no run now, and what to do; None if it is not that."""
    if cluster is not None and cluster.status == "Stopped":
        return (
            f"The fleet of cluster '{cluster.name}' is stopped.",
            f"Start it with trainyard cluster start {cluster.name}, and ask again",
        )
    if cluster is not None and cluster.status == "Updating":
        look = f"trainyard cluster show {cluster.name}"
        step = f"Wait until it is Ready ({look}), and ask again"
        if stays_stopped(cluster):
            start = f"trainyard cluster start {cluster.name}"
            step = f"Wait until it is Stopped ({look}), start it with {start}, and ask again"
        return f"Cluster '{cluster.name}' is being changed.", step
    return None


def stays_stopped(cluster: Cluster) -> bool:
    """Whether a run would wait on it in vain: its fleet is stopped, or will be."""
    ends = cluster.change is not None and cluster.change.fleet == "stopped"
    return cluster.status == "Stopped" or (cluster.status == "Updating" and ends)


def other_jobs(ports: Ports, cluster: Cluster) -> OtherJobs:
    """People's jobs on this very cluster as its controller last reported them."""
    beats = [
        beat
        for beat in newest_heartbeats(ports, cluster.name, 1)
        if beat.cluster_arn == cluster.arn
    ]
    reported = next(
        (
            beat.other_jobs
            for beat in beats
            if ports.clock.now() - beat.at < timedelta(seconds=KNOWN_SECONDS)
        ),
        None,
    )
    if reported is None:
        return OtherJobs()
    waited = ports.clock.now() - cluster.idle_since > timedelta(seconds=QUEUED_SECONDS)
    return reported.changed(queued=0) if waited else reported

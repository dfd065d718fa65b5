"""A heartbeat of a controller."""

from __future__ import annotations

from datetime import datetime

from trainyard.app.facts.recorded import Recorded
from trainyard.app.facts.situation import silent_since
from trainyard.domain.records import Cluster, TimelineEntry
from trainyard.ports import Ports
from trainyard_contracts.events import ClusterHeartbeat


def record_heartbeat(ports: Ports, cluster: Cluster, event: ClusterHeartbeat) -> Recorded:
    ports.clusters.put_heartbeat(event)
    # A node's clock may be ahead, so our own clock decides liveness.
    now = ports.clock.now()
    if last := silent_since(ports, cluster):
        _tell_return(ports, cluster, last, now)
    ports.clusters.touch(
        event.cluster_name, heartbeat_at=now, used_at=now if _in_use(event) else None
    )
    return Recorded("recorded", "heartbeat", "ClusterHeartbeat", event.id, event.cluster_name)


def _in_use(event: ClusterHeartbeat) -> bool:
    """A run trains, or a person's job runs.

    Queued ones keep the cluster too, but not for ever (app/clusters/cluster_use.py).
    """
    return bool(event.runs) or (event.other_jobs is not None and event.other_jobs.running > 0)


def _tell_return(ports: Ports, cluster: Cluster, last: datetime, now: datetime) -> None:
    silence = f"{(now - last).total_seconds():.0f} s of silence"
    message = f"The controller of cluster '{cluster.name}' is heard again, after {silence}."
    entry = TimelineEntry(
        id=f"controller-back-{cluster.name}-{last:%Y%m%dT%H%M%S%f}",
        at=now,
        kind="status",
        type="ControllerBack",
        message=message,
    )
    for run in ports.runs.on_cluster(cluster.name):
        ports.runs.note(run.id, entry)

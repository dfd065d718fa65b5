"""When a cluster that nobody uses is deleted, and when people hear of that before."""

from __future__ import annotations

from datetime import datetime, timedelta

from trainyard.domain.notices import Notice
from trainyard.domain.records import Cluster

#: After this part of idleLimitSeconds without a run people hear of the end.
TOLD_PART = 0.5


def ends_at(cluster: Cluster) -> datetime:
    """After this moment it is deleted, if nobody uses it and nothing is lost by that."""
    return cluster.idle_since + timedelta(seconds=cluster.spec.idle_limit_seconds)


def told_at(cluster: Cluster) -> datetime:
    return cluster.idle_since + timedelta(seconds=TOLD_PART * cluster.spec.idle_limit_seconds)


def notice(cluster: Cluster, now: datetime) -> Notice:
    """The same for one time without use, whenever and by whomever it is made."""
    since, end = cluster.idle_since, ends_at(cluster)
    return Notice(
        id=f"{cluster.name}/{cluster.generation}/cluster.idle/{since:%Y%m%dT%H%M%S%f}",
        at=now,
        type="cluster.idle",
        message=(
            f"Nobody has used cluster '{cluster.name}' since {since:%Y-%m-%d %H:%M:%S} UTC. It is "
            f"deleted after {end:%Y-%m-%d %H:%M:%S} UTC, unless a run uses it before. To keep it "
            f"for another {cluster.spec.idle_limit_seconds} s: trainyard cluster keep "
            f"{cluster.name}"
        ),
        cluster_name=cluster.name,
    )

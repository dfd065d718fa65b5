"""How a cluster's change goes on, or ends."""

from __future__ import annotations

from typing import Any

from trainyard.domain.records import ChangeState, Cluster, ClusterChange
from trainyard.outside.changes import Changes
from trainyard.ports import Ports


def to_step(cluster: Cluster, state: ChangeState, reason: str = "", **update: Any) -> Cluster:
    """With its change in this state; `update` is of the change."""
    change = cluster.change
    assert change is not None
    return cluster.changed(change=change.changed(state=state, reason=reason[:1500], **update))


def with_spec(cluster: Cluster, change: ClusterChange) -> Cluster:
    """The spec is a person's now, and no longer one of the ways in which the cluster was tried."""
    asked = cluster.asked or cluster.spec
    return cluster.changed(spec=change.spec, asked=asked, tries=[])


def settle(
    ports: Ports, cluster: Cluster, change: ClusterChange, outcome: ChangeState, reason: str = ""
) -> Cluster:
    """Its outcome is known. A fleet that was stopped for it is started, whatever the outcome."""
    if change.stops_fleet:
        return to_step(cluster, "starting", reason, outcome=outcome)
    return change_ended(ports, cluster, outcome, reason)


def change_ended(ports: Ports, cluster: Cluster, outcome: ChangeState, reason: str = "") -> Cluster:
    change = cluster.change
    assert change is not None
    status = "Stopped" if change.fleet == "stopped" else "Ready"
    return to_step(cluster.changed(status=status), outcome, reason, ended_at=ports.clock.now())


def without_cluster(ports: Ports, cluster: Cluster) -> Cluster:
    """The sweep's other duties find out what became of a Ready cluster that is not there."""
    words = "AWS has no such cluster any more."
    return to_step(cluster.changed(status="Ready"), "failed", words, ended_at=ports.clock.now())


def changes_of(ports: Ports, cluster: Cluster) -> Changes:
    found = ports.backend(cluster).changes
    assert found is not None, cluster.backend  # else no change was stored
    return found

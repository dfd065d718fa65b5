"""Leaves a run's cluster for the next way of its spec, because AWS has no nodes for its job.

The teardown machine deletes what there is, proves it gone, and stores the next try.
"""

from __future__ import annotations

from trainyard.app.clusters.cluster_use import other_jobs
from trainyard.app.clusters.create_cluster import start_teardown
from trainyard.app.runs.tell_tries import tell_refusal
from trainyard.domain import capacity, teardown, ways
from trainyard.domain.records import Action, Cluster, Run
from trainyard.ports import Ports


def leave_way(ports: Ports, cluster: Cluster, run: Run, action: Action) -> str:
    """Mark the cluster Deleting with its try over. Again changes nothing.

    One that others use, or that holds what nobody exported, is kept.
    """
    if action.id != ways.leaving(cluster, "").id or cluster.owner_run != run.id:
        return "The cluster was left already."
    if cluster.status == "Ready":
        if reason := _blocker(ports, cluster, run):
            return f"The next way is not tried: {reason}"
        now = ports.clock.now()
        over = ways.left(run, cluster, action.reason, now)
        if capacity.next_try(over, now) is None:
            return "The next way is not tried: there is no time left for it."
        cluster = ports.clusters.put(over.changed(status="Deleting"))
    if cluster.status != "Deleting" or cluster.problem is None:
        return f"The next way is not tried: the cluster is {cluster.status}."
    tell_refusal(ports, cluster)
    start_teardown(ports, cluster)
    return "The cluster is deleted, and the next way is tried when it is gone."


def _blocker(ports: Ports, cluster: Cluster, run: Run) -> str | None:
    others = [one for one in ports.runs.on_cluster(cluster.name) if one.id != run.id]
    facts, unread = ports.clusters.facts(cluster.name), ports.runs.unreadable_on(cluster.name)
    return teardown.blocker(cluster, others, facts, other_jobs(ports, cluster), unread)

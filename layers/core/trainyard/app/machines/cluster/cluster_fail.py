"""Deletes a cluster that failed, so that it costs nothing more.

First it keeps AWS's reason and the end of the lifecycle log.
"""

from __future__ import annotations

from typing import Any

from trainyard.app.clusters.create_cluster import start_teardown
from trainyard.app.facts.tell_runs import tell_runs
from trainyard.app.machines.inputs import StepInput
from trainyard.app.machines.trouble import cause_of
from trainyard.app.runs.tell_tries import tell_refusal
from trainyard.domain import capacity
from trainyard.domain.cluster_facts import ClusterFailed
from trainyard.domain.errors import TrainyardError
from trainyard.domain.problems import brief, problem, with_log
from trainyard.domain.records import Cluster, Problem
from trainyard.ports import Ports

LOG_LINES = 40
#: It was made, whatever became of the step that said so: that trouble is not the cluster's.
MADE = frozenset({"Ready", "Updating", "Stopped", "Deleted"})
WITH_LOG = frozenset({"lifecycle-failed", "cluster-deadline", "cluster-failed"})


def cluster_fail(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Mark the cluster Failed with its whole reason, tell its runs, start its deletion.

    One whose spec names another way is not Failed: it is deleted, and tried in that way.
    """
    cluster = ports.clusters.get(given.cluster_name)
    if cluster.generation != given.generation or cluster.status in MADE:
        return {"status": cluster.status}
    if cluster.status not in ("Failed", "Deleting"):
        cluster = _judged(ports, cluster, given)
    if cluster.status == "Deleting":
        return _retreat(ports, cluster)
    reason = brief(cluster.problem) if cluster.problem else "unknown"
    fact_id = f"cluster-failed-{cluster.name}-{cluster.generation}"
    fact = ClusterFailed(
        id=fact_id,
        at=cluster.updated_at,
        cluster_name=cluster.name,
        generation=cluster.generation,
        reason=reason,
    )
    ports.clusters.record(cluster.name, fact)
    start_teardown(ports, cluster)
    tell_runs(ports, cluster, fact)
    return {"status": "Failed", "reason": reason[:1000]}


def _judged(ports: Ports, cluster: Cluster, given: StepInput) -> Cluster:
    found = cluster.problem or problem("cluster-failed", cause_of(given))
    now = ports.clock.now()
    over = capacity.ended(cluster.changed(problem=found), found.detail, now)
    if capacity.next_try(over, now) is not None:
        return ports.clusters.put(over.changed(status="Deleting"))
    found = _with_log(ports, cluster, capacity.exhausted(over) or found)
    ports.metrics.put("ClustersFailed", 1, code=found.code)
    return ports.clusters.put(over.changed(status="Failed", problem=found))


def _retreat(ports: Ports, cluster: Cluster) -> dict[str, Any]:
    """Delete what was made of a try; a cluster that somebody else deletes is left alone."""
    if capacity.next_try(cluster, ports.clock.now()) is None:
        return {"status": cluster.status}
    refusal = tell_refusal(ports, cluster)
    start_teardown(ports, cluster)
    return {"status": cluster.status, "reason": refusal.reason}


def _with_log(ports: Ports, cluster: Cluster, found: Problem) -> Problem:
    if found.code not in WITH_LOG or cluster.arn is None:
        return found
    try:
        tail = ports.backend(cluster).lifecycle_log(cluster, lines=LOG_LINES).strip()
    except TrainyardError as error:
        tail = f"(the lifecycle log could not be read: {error.detail})"
    return with_log(found, tail[-4000:])

"""The run is over: its last status, and what it leaves on its cluster."""

from __future__ import annotations

from typing import Any

from trainyard.app.facts.situation import cluster_of
from trainyard.app.machines.inputs import StepInput
from trainyard.app.machines.run.children import wake_children
from trainyard.app.machines.run.only_copy import record_copies
from trainyard.app.runs.run_costs import cost_of
from trainyard.domain import teardown
from trainyard.domain.closing import final_status
from trainyard.domain.job_facts import UnsavedRun
from trainyard.domain.problems import problem
from trainyard.domain.records import Cluster, Run, TimelineEntry
from trainyard.ports import Ports


def finish(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Make the run terminal. Whatever led here, it ends with a clear status and a clear reason."""
    run = ports.runs.get(given.run_id)
    if (
        run.terminal or given.generation < run.generation
    ):  # a late repetition of this step must not end the run's next life
        wake_children(ports, run)  # the step may have died before it did
        return {"status": run.status}
    cluster = cluster_of(ports, run)
    if cluster is not None:
        ports.clusters.touch(cluster.name, used_at=ports.clock.now())
    if cluster is not None and _holds_what_is_nowhere_else(run, cluster):
        record_copies(ports, run, UnsavedRun)
    now = ports.clock.now()
    ended = _ended(run, cluster).changed(finished_at=now)
    ended = ended.changed(cost=cost_of(ports, ended, now))
    message = f"The run is {ended.status}: {ended.reason}"
    line = TimelineEntry(
        id=f"status-end-{run.life}", at=now, kind="status", type=ended.status, message=message
    )
    ports.runs.put(ended, [line])
    ports.notices.run_changed(ended.id)
    ports.metrics.put("RunsEnded", 1, status=ended.status)
    wake_children(ports, ended)
    return {"status": ended.status}


def _holds_what_is_nowhere_else(run: Run, cluster: Cluster) -> bool:
    if cluster.status == "Deleted" or teardown.holds_nothing(cluster):
        return False
    return teardown.has_something_to_lose(run)


def _ended(run: Run, cluster: Cluster | None) -> Run:
    trouble = run.problem
    if run.outcome is None:
        trouble = trouble or problem("internal", run.reason or "A step failed again and again.")
    deleted = run.cluster_deleted or (
        run.owns_cluster and cluster is not None and cluster.status == "Deleted"
    )
    reason = run.reason if run.outcome != "succeeded" or trouble is None else trouble.detail
    status = final_status(run.outcome, trouble is not None)
    return run.changed(
        status=status, problem=trouble, cluster_deleted=deleted, reason=reason, actions=[]
    )

"""Give an ended run another life: new budgets, the same checkpoints."""

from __future__ import annotations

from trainyard.app.facts.situation import cluster_of
from trainyard.app.runs.submit_run import start_run
from trainyard.domain.errors import ConflictError, RunActive, RunFinished
from trainyard.domain.facts import ResumeRequested
from trainyard.domain.kinds import sentence
from trainyard.domain.records import Run
from trainyard.domain.runs import left_on, reopened
from trainyard.ports import Ports
from trainyard_contracts import places


def resume_run(ports: Ports, run_id: str) -> Run:
    """Resume a failed or cancelled run from its newest whole checkpoint.

    Raises RunNotFound, RunActive, RunFinished (it succeeded), ConflictError (its checkpoints went
    with its cluster).
    """
    run = ports.runs.get(run_id)
    if not run.terminal:
        return _active(ports, run)
    if run.status == "Succeeded":
        raise RunFinished(f"Run {run_id} succeeded; there is nothing to resume.")
    _check_checkpoints(ports, run)
    now = ports.clock.now()
    fresh = ports.runs.put(
        _below_its_cluster(reopened(run, now, outcome=None, reason="A person resumed the run."))
    )
    fact = ResumeRequested(id=f"resume-{run_id}-{fresh.life}", at=now, life=fresh.life)
    ports.runs.record(run_id, fact, sentence(fact))
    start_run(ports, fresh)
    return fresh


def _below_its_cluster(run: Run) -> Run:
    """Nodes reach objects below their own cluster's prefix only.

    A run from before that rule gets one there, for all that follows.
    """
    return run.changed(
        objects_prefix=run.objects_prefix
        or places.run_prefix(places.runs_prefix(run.cluster_name), run.id)
    )


def _active(ports: Ports, run: Run) -> Run:
    """Answer a repeated request: the first one made the run active.

    A crash may have left the run's machine unstarted, so it is started again. Raises RunActive for
    a run that was active before.
    """
    if run.status == "Pending" and run.life > 1:
        start_run(ports, run)
        return run
    raise RunActive(
        f"Run {run.id} is {run.status}; it resumes by itself when something fails.",
        next_step="Watch it, or cancel it first.",
    )


def _check_checkpoints(ports: Ports, run: Run) -> None:
    if not any(attempt.submitted_at for attempt in run.attempts):
        return
    if run.spec.cluster.spec is not None:  # a new cluster of it has the same filesystem
        return
    cluster = cluster_of(ports, run)
    if cluster is None or cluster.status != "Ready" or not left_on(run, cluster):
        raise ConflictError(
            f"No cluster '{run.cluster_name}' is Ready that holds the run's checkpoints; "
            f"what was exported is under {run.export_prefix}.",
            next_step="Create a cluster of this name on the filesystem that holds them "
            f"({run.filesystem}), or submit a new run.",
        )

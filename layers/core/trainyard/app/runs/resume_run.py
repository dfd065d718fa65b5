"""Give an ended run another life: new budgets, the same checkpoints."""

from __future__ import annotations

from trainyard.app.clusters.cluster_use import resting, stays_stopped
from trainyard.app.facts.situation import cluster_of, silent_since
from trainyard.app.runs.approvals import asked_of
from trainyard.app.runs.budgets import hourly_of
from trainyard.app.runs.read_sync import latest_sync
from trainyard.app.runs.submit_run import body_hash, start_run
from trainyard.app.runs.team_budgets import check_begins
from trainyard.domain.advice import another_cluster, copied, submitted
from trainyard.domain.errors import FieldError, InvalidRequest, RunActive, RunFinished, WrongState
from trainyard.domain.kinds import sentence
from trainyard.domain.order_facts import ResumeRequested
from trainyard.domain.records import Cluster, Run
from trainyard.domain.runs import left_on, reopened
from trainyard.domain.words import who
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.people import Person


def resume_run(
    ports: Ports, run_id: str, filesystem: str | None = None, *, by: Person | None = None
) -> Run:
    """Resume a failed or cancelled run from its newest whole checkpoint.

    `filesystem`: another one for its own cluster, to which the agent brings what was synced; its
    DNS name and mount name. Raises RunNotFound, RunActive, RunFinished (it succeeded),
    WrongState (its checkpoints went with its cluster), InvalidRequest.
    """
    run = ports.runs.get(run_id)
    if not run.terminal:
        return _active(ports, run)
    if run.status == "Succeeded":
        raise RunFinished(f"Run {run_id} succeeded; there is nothing to resume.")
    if run.directory_deleted_at is not None:
        raise WrongState(
            f"The directory in S3 of run {run_id} was deleted at "
            f"{run.directory_deleted_at:%Y-%m-%d %H:%M} UTC, since the run was over for long. Its "
            "export has what was in it.",
            next_step="Begin a new run with its checkpoint: trainyard run rerun "
            f"{run_id} --from-checkpoint STEP.",
        )
    run = _where_it_trained(ports, run)
    if filesystem is not None:
        run = _moved(run, filesystem)
        _check_gone(ports, run)
    _check_checkpoints(ports, run)
    check_begins(ports, run.spec, run.labels, run.cluster_name, lambda: hourly_of(ports, run.spec))
    now = ports.clock.now()
    words = f"{who(by)} resumed the run."
    opened = _below_its_cluster(reopened(run, now, outcome=None, reason=words))
    fresh = ports.runs.put(_held(ports, opened, by))
    fact = ResumeRequested(id=f"resume-{run_id}-{fresh.life}", at=now, life=fresh.life, by=by)
    ports.runs.record(run_id, fact, sentence(fact))
    start_run(ports, fresh)
    return fresh


def _held(ports: Ports, run: Run, by: Person | None) -> Run:
    """Each life may cost what the first one might, so each is approved by itself."""
    approval = asked_of(ports, run.spec, run.id, run.life, body_hash(run.spec), by)
    status = "Pending" if approval is None else "Waiting"
    return run.changed(approval=approval, approval_met_at=None, status=status)


def _where_it_trained(ports: Ports, run: Run) -> Run:
    """A run that trained in one of several backends goes on there: others lack its checkpoints."""
    cluster, given = cluster_of(ports, run), run.spec.cluster
    if cluster is None or given.spec is None or not given.otherwise or not submitted(run):
        return run
    known = [one for one in (given.spec, *given.otherwise) if one.backend == cluster.backend]
    if not known:
        return run
    return run.changed(spec=run.spec.on(known[0]))


def _moved(run: Run, filesystem: str) -> Run:
    """The run with another filesystem in its cluster's spec, where that can be. It is the only
    thing of a spec that may change: what the run is does not depend on it.
    """
    spec = run.spec.cluster.spec
    if spec is None:
        raise _wrong(
            f"the run uses the cluster '{run.cluster_name}', which has its own; create that on the "
            "other filesystem"
        )
    if run.spec.export.every_seconds is None:
        raise _wrong(
            "the run had no export.everySeconds, so there is nothing to bring to another one; "
            "resume it on its own, or submit a new run"
        )
    try:
        moved = spec.on_filesystem(filesystem)
    except ValueError as mistake:
        raise _wrong(str(mistake)) from None
    cluster = run.spec.cluster.changed(spec=moved)
    return run.changed(spec=run.spec.changed(cluster=cluster))


def _check_gone(ports: Ports, run: Run) -> None:
    """Its cluster would go on with the filesystem that it mounts."""
    cluster = cluster_of(ports, run)
    if cluster is not None and cluster.status not in ("Deleting", "Deleted"):
        last = silent_since(ports, cluster)
        silent = f" (though its controller is silent since {last:%H:%M:%S} UTC)" if last else ""
        raise WrongState(
            f"filesystem: cluster '{cluster.name}' is {cluster.status}{silent} and would go on "
            "with the filesystem that it mounts.",
            next_step="If the cluster or its filesystem is lost, delete the cluster first: "
            f"trainyard cluster delete {cluster.name} --force. If neither is, resume the run "
            f"without --filesystem: trainyard run resume {run.id}.",
        )


def _wrong(words: str) -> InvalidRequest:
    return InvalidRequest(f"filesystem: {words}", errors=[FieldError("filesystem", words)])


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
    if run.life > 1 and (run.status == "Pending" or run.waits_for_approval):
        start_run(ports, run)
        return run
    raise RunActive(
        f"Run {run.id} is {run.status}; it resumes by itself when something fails.",
        next_step=f"Watch it with trainyard run watch {run.id}, or cancel it first: trainyard run "
        f"cancel {run.id}.",
    )


def _check_checkpoints(ports: Ports, run: Run) -> None:
    cluster = cluster_of(ports, run)
    if cluster is not None and stays_stopped(cluster) and (rests := resting(cluster)):
        raise WrongState(rests[0], next_step=f"{rests[1]}.")
    if not submitted(run):
        return
    own = run.spec.cluster.spec
    if own is not None and own.filesystem and not (cluster and cluster.went_unarchived):
        return  # a new cluster of it has the same filesystem
    if (rests := resting(cluster)) is not None:
        raise WrongState(rests[0], next_step=f"{rests[1]}.")
    ready = cluster is not None and cluster.status == "Ready"
    sync = latest_sync(ports, run)
    if ready and sync is not None:  # the agent brings it to any filesystem
        return
    if sync is not None:
        state = f"is {cluster.status}" if cluster is not None else "is not there"
        raise WrongState(
            f"Cluster '{run.cluster_name}' {state}. What the run made is in S3 "
            f"({copied(sync, ports.clock.now())}) and is brought to any filesystem.",
            next_step=f"{_when_ready(run, cluster)}. (--filesystem is for runs with a cluster of "
            "their own.)",
        )
    if cluster is None or not ready or not left_on(run, cluster):
        raise WrongState(
            f"No cluster '{run.cluster_name}' is Ready that holds the run's checkpoints.",
            next_step="Create a cluster of this name on the filesystem that holds them "
            f"({run.filesystem}), or submit a new run. What was exported, if anything: trainyard "
            f"run outputs {run.id}.",
        )


def _when_ready(run: Run, cluster: Cluster | None) -> str:
    if cluster is not None and cluster.status in ("Pending", "Creating", "InService"):
        return f"Wait until it is Ready, then: trainyard run resume {run.id}"
    if cluster is not None and cluster.status == "Deleting":
        return f"Wait until it is Deleted, then {another_cluster(run)}"
    if cluster is not None and cluster.status == "Failed":
        delete = f"trainyard cluster delete {cluster.name}"
        return f"Delete it ({delete}), then {another_cluster(run)}"
    words = another_cluster(run)
    return f"{words[:1].upper()}{words[1:]}"

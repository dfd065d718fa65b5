"""Ask for an export of what a run has trained so far."""

from __future__ import annotations

from trainyard.app.clusters.cluster_use import resting
from trainyard.app.facts.situation import cluster_of
from trainyard.app.facts.waking import wake_run
from trainyard.app.runs.submit_run import start_run
from trainyard.domain.advice import submitted
from trainyard.domain.errors import WrongState
from trainyard.domain.kinds import sentence
from trainyard.domain.order_facts import ExportRequested
from trainyard.domain.records import Run
from trainyard.domain.runs import left_on, reopened
from trainyard.domain.words import who
from trainyard.ports import Ports
from trainyard_contracts.people import Person


def request_export(ports: Ports, run_id: str, *, by: Person | None = None) -> Run:
    """Export in the background while the run trains.

    Of an ended run, export what its cluster still holds. Raises RunNotFound, WrongState (nothing
    is left to export from).
    """
    run = ports.runs.get(run_id)
    if run.terminal:
        return _export_ended(ports, run, by)
    fact = ExportRequested(
        id=f"export-{ports.ids.ulid().lower()}", at=ports.clock.now(), life=run.life, by=by
    )
    ports.runs.record(run_id, fact, sentence(fact))
    wake_run(ports, run_id, ExportRequested)
    return ports.runs.get(run_id)


def _export_ended(ports: Ports, run: Run, by: Person | None) -> Run:
    export = run.export
    if (
        export is not None
        and export.final
        and export.state == "verified"
        and not export.left_behind
        and not export.found_nothing
    ):
        return run
    if not submitted(run):
        raise WrongState(
            f"Run {run.id} is {run.status} and its program never started: there is nothing to "
            "export.",
            next_step=f"Look why with trainyard run show {run.id}.",
        )
    cluster = cluster_of(ports, run)
    if (rests := resting(cluster)) is not None:
        raise WrongState(rests[0], next_step=f"{rests[1]}.")
    if cluster is None or cluster.status != "Ready" or not left_on(run, cluster):
        raise WrongState(
            f"Run {run.id} is {run.status} and cluster '{run.cluster_name}' "
            "holds nothing of it any more.",
            next_step=f"See what is in S3 of it: trainyard run outputs {run.id}.",
        )
    reason = f"{who(by)} asked for an export of the ended run."
    fresh = ports.runs.put(
        reopened(run, ports.clock.now(), outcome=run.outcome or "failed", reason=reason)
    )
    start_run(ports, fresh)
    return fresh

"""Ask for an export of what a run has trained so far."""

from __future__ import annotations

from trainyard.app.submit_run import start_run
from trainyard.app.waking import wake_run
from trainyard.domain import facts
from trainyard.domain.errors import ClusterNotFound, ConflictError
from trainyard.domain.records import Fact, Run
from trainyard.domain.runs import reopened
from trainyard.ports import Ports


def request_export(ports: Ports, run_id: str) -> Run:
    """Export in the background while the run trains; of an ended run, export what its cluster still holds.

    Raises RunNotFound, ConflictError (nothing is left to export from).
    """
    run = ports.runs.get(run_id)
    if run.terminal:
        return _export_ended(ports, run)
    fact = Fact(id=f"export-{ports.ids.ulid().lower()}", type=facts.EXPORT_REQUESTED, at=ports.clock.now(), data={"life": run.life})
    ports.runs.record(run_id, fact, "A person asked for an export.")
    wake_run(ports, run_id, fact.type)
    return ports.runs.get(run_id)


def _export_ended(ports: Ports, run: Run) -> Run:
    if run.export is not None and run.export.final and run.export.state == "verified":
        return run
    try:
        ready = ports.clusters.get(run.cluster_name).status == "Ready"
    except ClusterNotFound:
        ready = False
    if not ready or not run.attempts:
        raise ConflictError(
            f"Run {run.id} is {run.status} and cluster '{run.cluster_name}' holds nothing of it any more.",
            next_step=f"Look under runs/{run.id}/export/ in the data bucket for what was exported.",
        )
    fresh = ports.runs.put(reopened(run, ports.clock.now(), outcome=run.outcome, reason="A person asked for an export of the ended run."))
    start_run(ports, fresh)
    return fresh

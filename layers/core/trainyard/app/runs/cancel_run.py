"""Ask a run to stop.

Record the request as a fact and wake the machine, which alone changes the run.
"""

from __future__ import annotations

from trainyard.app.facts.waking import wake_run
from trainyard.domain.errors import RunFinished
from trainyard.domain.kinds import sentence
from trainyard.domain.order_facts import CancelRequested
from trainyard.domain.records import Run
from trainyard.ports import Ports
from trainyard_contracts.people import Person


def cancel_run(ports: Ports, run_id: str, *, by: Person | None = None, reason: str = "") -> Run:
    """Cancel; twice is the same as once. Raises RunNotFound, RunFinished."""
    run = ports.runs.get(run_id)
    if run.terminal:
        if run.status == "Cancelled":
            return run
        raise RunFinished(f"Run {run_id} is {run.status}; there is nothing left to cancel.")
    fact = CancelRequested(
        id=f"cancel-{run_id}-{run.life}",
        at=ports.clock.now(),
        life=run.life,
        by=by,
        reason=reason,
    )
    ports.runs.record(run_id, fact, sentence(fact))
    wake_run(ports, run_id, CancelRequested)
    return ports.runs.get(run_id)

"""Ask a run to stop: record the request as a fact and wake the machine, which alone changes the run."""

from __future__ import annotations

from trainyard.app.waking import wake_run
from trainyard.domain import facts
from trainyard.domain.errors import RunFinished
from trainyard.domain.records import Fact, Run
from trainyard.ports import Ports


def cancel_run(ports: Ports, run_id: str) -> Run:
    """Cancel; twice is the same as once. Raises RunNotFound, RunFinished."""
    run = ports.runs.get(run_id)
    if run.terminal:
        if run.status == "Cancelled":
            return run
        raise RunFinished(f"Run {run_id} is {run.status}; there is nothing left to cancel.")
    fact = Fact(id=f"cancel-{run_id}-{run.life}", type=facts.CANCEL_REQUESTED, at=ports.clock.now(), data={"life": run.life})
    ports.runs.record(run_id, fact, "A person asked to cancel the run.")
    wake_run(ports, run_id, fact.type)
    return ports.runs.get(run_id)

"""Load, decide, save: the one step that says where the run goes next."""

from __future__ import annotations

from typing import Any

from trainyard.app.situation import think
from trainyard.app.steps.inputs import StepInput
from trainyard.domain.decisions import Decision
from trainyard.domain.records import Run
from trainyard.ports import Ports


def decide_run(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Decide and save. The lines of a decision are written with the run or not at all: of two decisions at once only one is told."""
    run = ports.runs.get(given.run_id)
    if given.generation < run.generation:
        return {"next": "superseded", "reason": "A newer execution owns the run.", "actions": [], "timeoutSeconds": 1}
    decision = think(ports, run)
    save(ports, run, decision)
    return {
        "next": decision.next,
        "reason": decision.reason[:1000],
        "actions": [action.model_dump(mode="json", by_alias=True) for action in decision.actions],
        "timeoutSeconds": decision.timeout_seconds,
    }


def save(ports: Ports, run: Run, decision: Decision) -> Run:
    """Store what was decided; an unchanged run is not written."""
    if decision.run != run:
        return ports.runs.put(decision.run.model_copy(update={"updated_at": ports.clock.now()}), decision.notes)
    for note in decision.notes:
        ports.runs.note(run.id, note)
    return run

"""The first step of a run's machine: take the run over for this execution."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from trainyard.app.machines.inputs import StepInput
from trainyard.app.machines.run.keep_code import keep_code
from trainyard.domain.records import TimelineEntry
from trainyard.domain.words import counted
from trainyard.ports import Ports


def plan_run(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Fence older executions by the generation, and give the run its own copy of its code.

    Say it in the timeline when a machine was started again.
    """
    run = ports.runs.get(given.run_id)
    if given.generation > run.generation:
        now = ports.clock.now()
        message = (
            f"The run's state machine was started again (generation {given.generation}); "
            "it goes on where the run stands."
        )
        ports.runs.note(run.id, _entry(given, "MachineRestarted", message, now))
        ports.runs.put(run.changed(generation=given.generation))
    elif run.life == 1 and given.generation == 1:
        ports.runs.note(
            run.id,
            _entry(
                given,
                "Accepted",
                f"Run '{run.name}' accepted for {counted(run.spec.job.nodes, 'node')}.",
                run.created_at,
            ),
        )
        for number, words in enumerate(run.warnings):
            entry_id = f"status-warning-{number}"
            ports.runs.note(
                run.id,
                TimelineEntry(
                    id=entry_id, at=run.created_at, kind="status", type="Warning", message=words
                ),
            )
    keep_code(ports, ports.runs.get(run.id))
    return {"runId": run.id}


def _entry(given: StepInput, type_: str, message: str, at: datetime) -> TimelineEntry:
    return TimelineEntry(
        id=f"status-plan-{given.generation}", at=at, kind="status", type=type_, message=message
    )

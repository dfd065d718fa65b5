"""Do one decided action: stop the job, exclude nodes, ask for another node, leave the cluster."""

from __future__ import annotations

from trainyard.app.facts.situation import decide_now
from trainyard.app.machines.inputs import StepInput
from trainyard.app.machines.run.delays import tell_delay
from trainyard.app.machines.run.leave_way import leave_way
from trainyard.app.machines.run.repairs import DOERS
from trainyard.domain.errors import RetryableError
from trainyard.domain.exclusions import excluded
from trainyard.domain.records import Action, Run, TimelineEntry
from trainyard.ports import Ports


def repair(ports: Ports, given: StepInput) -> dict[str, object]:
    """Do the action and take it off the run.

    What AWS refuses is said in the timeline; it never stops the run.
    """
    action = Action.model_validate(given.action)
    run = ports.runs.get(given.run_id)
    if all(planned.id != action.id for planned in run.actions):
        return {"done": action.id}
    try:
        message, after = _done(ports, run, action)
    except RetryableError as error:
        planned = decide_now(ports, ports.runs.get(run.id)).actions
        if any(known.id == action.id for known in planned):
            tell_delay(ports, run.id, action.id, f"'{action.kind}' has no answer yet", error)
            raise
        return {"done": action.id, "message": "It is not needed any more."}
    now = ports.clock.now()
    number = run.attempt.number if run.attempt else None
    entry = TimelineEntry(
        id=f"status-action-{action.id}",
        at=now,
        kind="status",
        type="Repair",
        message=message,
        attempt=number,
    )
    ports.runs.note(run.id, entry)
    left = [planned for planned in run.actions if planned.id != action.id]
    ports.runs.put(after.changed(actions=left))
    return {"done": action.id, "message": message}


def _done(ports: Ports, run: Run, action: Action) -> tuple[str, Run]:
    """What was done, in words, and the run after it."""
    if action.kind == "leave":
        return leave_way(ports, run, action)
    cluster = ports.clusters.get(run.cluster_name)
    return DOERS[action.kind](ports, cluster, run, action), excluded(run, action)

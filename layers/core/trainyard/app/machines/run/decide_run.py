"""Load, decide, save: the one step that says where the run goes next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainyard.app.facts.situation import decide_now
from trainyard.app.machines.inputs import StepInput
from trainyard.app.runs.approvals import settle_approval, withdraw_approval
from trainyard.app.runs.give_turns import give_turns
from trainyard.app.runs.submit_run import start_run
from trainyard.domain.decisions import Decision
from trainyard.domain.records import Action, Incident, Run
from trainyard.domain.turns import counts, waits
from trainyard.ports import Ports

#: An execution may have 25,000 events and then fails; the room left is for repeated tasks.
MOST_SPENT = 15_000
#: Of a decision and the step or wait after it, and of each repair of a Map.
_ROUND_EVENTS, _ACTION_EVENTS = 20, 8
#: A state of Step Functions holds 256 KB; what is left is still the run's, and comes after these.
MOST_ACTIONS = 100


def decide_run(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Decide and save. The lines of a decision are written with the run or not at all.

    If two decisions are made at once, only one of them is saved, with its lines.
    """
    run = ports.runs.get(given.run_id)
    if given.generation < run.generation:
        return _superseded(given, "A newer execution owns the run.")
    if given.spent >= MOST_SPENT:
        start_run(ports, run.changed(generation=given.generation + 1))
        return _superseded(given, "The next execution goes on: this one's history is nearly full.")
    decision = _decided(ports, run)
    actions = decision.actions[:MOST_ACTIONS]
    return {
        "next": decision.next,
        "spent": given.spent + _ROUND_EVENTS + _ACTION_EVENTS * len(actions),
        "reason": decision.reason[:1000],
        "actions": [_told(action) for action in actions],
        "timeoutSeconds": decision.timeout_seconds,
    }


def _decided(ports: Ports, run: Run) -> Decision:
    """Decide and save, with its turn given before and returned after it, where it shares its
    cluster.
    """
    if waits(run):
        give_turns(ports, run.cluster_name, run)
    settle_approval(ports, run)
    decision = decide_now(ports, run)
    saved = save(ports, run, decision)
    withdraw_approval(ports, saved)
    if (waits(saved) and not waits(run)) or (counts(run) and not counts(saved)):
        give_turns(ports, run.cluster_name, saved)
    return decision


def _superseded(given: StepInput, reason: str) -> dict[str, Any]:
    return {
        "next": "superseded",
        "spent": given.spent,
        "reason": reason,
        "actions": [],
        "timeoutSeconds": 1,
    }


def _told(action: Action) -> dict[str, Any]:
    return action.changed(reason=action.reason[:300]).model_dump(mode="json", by_alias=True)


def save(ports: Ports, run: Run, decision: Decision) -> Run:
    """Store what was decided; an unchanged run is not written."""
    if decision.run != run:
        saved = ports.runs.put(decision.run, decision.notes)
        ports.notices.run_changed(run.id)
        for seconds, incident in resumed(run, decision.run):
            ports.metrics.put("RecoverySeconds", seconds, "Seconds", cause=incident.cause)
        return saved
    for note in decision.notes:
        ports.runs.note(run.id, note)
    return run


def resumed(before: Run, after: Run) -> Iterator[tuple[float, Incident]]:
    """The incidents that a step closed by this decision, with the seconds from fault to step.

    Without a step nobody knows how long a recovery took.
    """
    known = {one.fact_id for one in before.incidents if not _stepped_on(one)}
    for one in after.incidents:
        if one.fact_id in known and _stepped_on(one) and one.resumed_at is not None:
            yield max(0.0, (one.resumed_at - one.started_at).total_seconds()), one


def _stepped_on(incident: Incident) -> bool:
    return incident.resumed_at is not None and incident.resumed_by == "step"

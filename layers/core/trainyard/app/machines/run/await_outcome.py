"""Wait until something happens to the run that asks for a decision.

Healthy training costs nothing here.
"""

from __future__ import annotations

from typing import Any

from trainyard.app.facts.situation import decide_now
from trainyard.app.machines.inputs import StepInput, done, store_wait, superseded
from trainyard.domain import names
from trainyard.ports import Ports


def await_outcome(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Store the token, then look once more: a fact that came in between ends the wait at once."""
    run = ports.runs.get(given.run_id)
    if superseded(ports, run, given.generation, given.token):
        return {"waiting": False}
    owner = names.run_owner(run.id)
    store_wait(ports, owner, "outcome", given)
    decision = decide_now(ports, run)
    if decision.next != "wait" or decision.run != run:
        done(ports, owner, given.token)
    return {"waiting": True}

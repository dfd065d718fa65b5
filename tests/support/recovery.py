"""What agents tell of a run of two nodes with a spare, and what a decision makes of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.support.facts import fact as made_fact
from tests.support.records import NOW

from trainyard.domain.decisions import Decision
from trainyard.domain.exclusions import excluded
from trainyard.domain.records import Attempt, Run
from trainyard_contracts.events import Fact

NODES = [f"ip-127-0-1-{number}" for number in (12, 13, 14)]


def evidence(node: str, agent: str = "silent", scheduler: str = "down") -> dict[str, str]:
    return {"node": node, "instanceId": f"i-{node[-2:]}", "agent": agent, "scheduler": scheduler}


def fact(number: int, type_: str, attempt: int | None, seconds: int, **data: Any) -> Fact:
    return made_fact(type_, f"F{number:04d}", NOW + timedelta(seconds=seconds), attempt, **data)


def acted(run_: Run, decision: Decision, now: datetime) -> Run:
    """What the machine's next step makes of the run, without any of its effects."""
    after = decision.run
    attempt = after.attempt
    if decision.next == "submit" and attempt is not None:
        return after.model_copy(
            update={
                "attempts": [
                    *after.attempts[:-1],
                    attempt.model_copy(update={"submitted_at": now, "job_id": "1"}),
                ]
            }
        )
    if decision.next == "repair":
        for action in decision.actions:
            after = excluded(after, action)
        return after.model_copy(update={"actions": []})
    if decision.next == "export":
        assert after.export is not None
        return after.model_copy(
            update={"export": after.export.model_copy(update={"state": "verified"})}
        )
    if decision.next == "teardown":
        return after.model_copy(update={"teardown_refused": "kept in this test"})
    if decision.next == "finish":
        return after.model_copy(update={"status": "Failed"})
    return after


ONE, TWO, SPARE = NODES[:3]
FIRST = Attempt(
    number=1, submitted_at=NOW, started_at=NOW, first_step_at=NOW, job_id="1", nodes=[ONE, TWO]
)
LOST = fact(1, "NodeLost", None, 10, about=evidence(ONE))

"""A run of two nodes with a spare, what agents tell of it, and what a decision makes of it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from tests.support.facts import fact as made_fact
from tests.support.spec_parts import cluster_spec

from trainyard.domain.decisions import Decision
from trainyard.domain.nodes import excluded
from trainyard.domain.records import Attempt, Cluster, Run
from trainyard_contracts.events import Fact
from trainyard_contracts.specs import RunSpec

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=timezone.utc)
NODES = [f"ip-127-0-1-{number}" for number in (12, 13, 14)]
CLUSTER_SPEC = cluster_spec()


def spec(**recovery: int) -> RunSpec:
    return RunSpec.model_validate({
        "name": "demo", "cluster": {"spec": CLUSTER_SPEC},
        "job": {"nodes": 2, "module": "trainyard_trainers.ddp"}, "recovery": recovery,
    })  # fmt: skip


def cluster(status: str = "Ready") -> Cluster:
    given_spec = spec().cluster.spec
    assert given_spec is not None
    return Cluster(
        name="demo-1", spec=given_spec, status=status, created_at=NOW, updated_at=NOW, arn="arn:c/1"
    )  # type: ignore[arg-type]


def run(**update: Any) -> Run:
    base = Run(
        id="run-1",
        name="demo",
        spec=spec(),
        created_at=NOW,
        updated_at=NOW,
        cluster_name="demo-1",
        owns_cluster=True,
        cluster_generation=1,
    )
    return base.model_copy(update=update)


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

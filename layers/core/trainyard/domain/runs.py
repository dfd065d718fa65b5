"""How a run's record changes outside its state machine: only while no machine runs, because the run has ended."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from trainyard.domain.records import Run


def reopened(run: Run, now: datetime, *, outcome: Literal["succeeded", "failed", "cancelled"] | None, reason: str) -> Run:
    """An ended run's next life: new budgets and a new execution. With an outcome it only exports, tears down and ends again."""
    return run.model_copy(
        update={
            "status": "Pending" if outcome is None else "Exporting",
            "life": run.life + 1,
            "generation": run.generation + 1,
            "opened_at": now,
            "updated_at": now,
            "finished_at": None,
            "outcome": outcome,
            "problem": None if outcome is None else run.problem,
            "reason": reason,
            "export": None,
            "cluster_generation": None if outcome is None else run.cluster_generation,
            "teardown_started": False,
            "cluster_deleted": False,
            "waiting_since": None,
            "stopping_since": None,
            "actions": [],
            "troubles": 0,
        }
    )

"""How a run ends, is stopped and is opened again, and what it leaves behind."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal

from trainyard.domain.records import Action, Cluster, Problem, Run

Outcome = Literal["succeeded", "failed", "cancelled"]


def stopped(run: Run, now: datetime, outcome: Outcome, reason: str, problem: Problem | None) -> Run:
    """End the training. A job that may still run must stop, even if we know of no submission.

    A cluster that was to be left for want of nodes is not: what becomes of it, the run's policy
    says. The job may still wait there.
    """
    actions = [one for one in run.actions if one.kind != "leave"]
    live, left = run.attempt, len(actions) < len(run.actions)
    if live is not None and live.life == run.life and (live.ended_at is None or left):
        actions.append(Action(id=f"cancel-job-{live.number}", kind="cancel-job", reason=reason))
    update = {
        "outcome": outcome,
        "reason": reason,
        "problem": problem,
        "waiting_since": None,
        "stopping_since": now,
        "actions": actions,
    }
    return run.changed(**update)


def reopened(run: Run, now: datetime, *, outcome: Outcome | None, reason: str) -> Run:
    """An ended run's next life: new budgets and a new execution.

    With an outcome it only exports, tears down and ends again.
    """
    kept = (
        run.problem
        if outcome is not None and run.problem is not None and run.problem.code != "export-failed"
        else None
    )
    return run.changed(
        status="Pending" if outcome is None else "Exporting",
        life=run.life + 1,
        generation=run.generation + 1,
        opened_at=now,
        finished_at=None,
        outcome=outcome,
        problem=kept,
        reason=reason,
        export=None,
        cluster_generation=None if outcome is None else run.cluster_generation,
        teardown_refused="",
        cancelled_by=None,
        cluster_deleted=False,
        waiting_since=None,
        stopping_since=None,
        actions=[],
        troubles=0,
    )


def left_on(run: Run, cluster: Cluster) -> bool:
    """Whether the cluster holds what the run wrote.

    A shared filesystem outlives the cluster on which it was written.
    """
    return same_filesystem(run.filesystem, cluster.filesystem)


def same_filesystem(one: str, other: str) -> bool:
    """Whether both name one, though specs of one backend have its id, and those of another one its
    DNS name, which begins with the id, and its mount name.
    """
    return one == other or any(
        re.fullmatch(r"fs-[0-9a-f]+", short) and long.startswith(f"{short}.")
        for short, long in ((one, other), (other, one))
    )

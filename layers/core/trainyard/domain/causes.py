"""Why an attempt is over: one small judge per cause, in order of precedence.

A new cause is one function and one entry.
"""

from __future__ import annotations

from trainyard.domain.decisions import Draft
from trainyard.domain.findings import Finding, Judge, end_of
from trainyard.domain.limit_causes import cancelled_on_cluster, out_of_memory, out_of_time
from trainyard.domain.loss_causes import cluster_lost, job_lost, node_lost
from trainyard.domain.program_causes import program_error, worker_process
from trainyard.domain.records import Attempt
from trainyard.domain.room_causes import never_began, no_capacity, no_nodes, not_allowed


def find(draft: Draft, attempt: Attempt) -> Finding | None:
    """The first judge that knows why this attempt is over; None while nothing ended it."""
    return next(
        (finding for judge in CAUSES if (finding := judge(draft, attempt)) is not None), None
    )


def succeeded(draft: Draft, attempt: Attempt) -> Finding | None:
    end = end_of(draft, attempt)
    if end is None or end.outcome != "succeeded":
        return None
    step = end.last_step
    at = f" at step {step}" if step is not None else ""
    return Finding(
        "finished", end, f"Training finished{at}.", outcome="succeeded", stop="succeeded"
    )


#: The recovery table, in order of precedence: what explains more comes first.
CAUSES: tuple[Judge, ...] = (
    succeeded,
    cluster_lost,
    not_allowed,
    no_nodes,
    node_lost,
    job_lost,
    no_capacity,
    never_began,
    out_of_time,
    cancelled_on_cluster,
    out_of_memory,
    worker_process,
    program_error,
)

"""Causes: time, memory, or somebody's hand on the cluster."""

from __future__ import annotations

from trainyard.domain.decisions import Draft
from trainyard.domain.findings import Finding, end_of, sentence_of, shown
from trainyard.domain.problems import problem
from trainyard.domain.records import Attempt
from trainyard.domain.same_errors import place_of


def out_of_time(draft: Draft, attempt: Attempt) -> Finding | None:
    """The job reached a limit of its own, which is in the cluster's spec."""
    over = draft.book.job_end_of(attempt)
    if over is None or over.how != "out-of-time":
        return None
    because = f"Job {over.job_id} reached its limit: {sentence_of(over.reason)}"
    found = problem("job-time-exceeded", because)
    return Finding("out-of-time", over, because, stop="failed", problem=found)


def cancelled_on_cluster(draft: Draft, attempt: Attempt) -> Finding | None:
    end = end_of(draft, attempt)
    if end is None or end.outcome != "cancelled":
        return None
    because = f"Job {end.job_id} was cancelled on the cluster, by someone other than Trainyard."
    return Finding(
        "cancelled-on-cluster",
        end,
        because,
        outcome="cancelled",
        stop="cancelled",
        problem=problem("cancelled", because),
    )


def out_of_memory(draft: Draft, attempt: Attempt) -> Finding | None:
    """The job needs more memory than it gets: no node is to blame.

    Another attempt is only worth it if this one came further than the last.
    """
    end = end_of(draft, attempt)
    if end is None or end.outcome != "failed" or end.error_kind != "out-of-memory":
        return None
    step, node = end.last_step, end.failed_node
    signature = f"out-of-memory|{-1 if step is None else step}"
    count = 1 + sum(
        _reached(incident.error_signature) >= (-1 if step is None else step)
        for incident in draft.incidents
    )
    words = end.error or "a process of the job was killed for want of memory"
    device = end.memory == "device"
    who = "An accelerator of the job" if device else "The job"
    because = (
        f"{who} ran out of memory {place_of(draft, attempt, end)}"
        f"{f' on {node}' if node else ''}: {words}."
    )
    if count < draft.run.spec.recovery.same_error_limit:
        return Finding(
            "out-of-memory", end, because, signature=signature, resume_as="Trying once more"
        )
    detail = f"{because} That was time {count} without coming further.{shown(end)}"
    return Finding(
        "out-of-memory",
        end,
        because,
        signature=signature,
        stop="failed",
        problem=problem("device-out-of-memory" if device else "out-of-memory", detail),
    )


def _reached(signature: str | None) -> int:
    """The step of an earlier end for want of memory; below every step for any other incident."""
    kind, _, step = (signature or "").partition("|")
    return int(step) if kind == "out-of-memory" else -2

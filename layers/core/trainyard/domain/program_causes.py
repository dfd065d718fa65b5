"""Causes: the program itself."""

from __future__ import annotations

from trainyard.domain.decisions import Draft
from trainyard.domain.findings import Finding, end_of, shown
from trainyard.domain.nodes import enough_nodes
from trainyard.domain.problems import problem
from trainyard.domain.records import Attempt
from trainyard.domain.same_errors import (
    CRASHES,
    early,
    of_image,
    place_of,
    same_error,
    trained_before,
)
from trainyard_contracts.events import AttemptEnded


def worker_process(draft: Draft, attempt: Attempt) -> Finding | None:
    """A signal killed a process: restart in place.

    When that repeats on one node, leave the node out if a spare can take over.

    Before the first step it is the program's own doing if it comes again, on whatever node.
    """
    end = end_of(draft, attempt)
    if end is None or end.error_kind not in ("signal", "node"):
        return None
    node = end.failed_node
    why = f": {end.error}" if end.error else ""
    because = f"A worker process{f' on {node}' if node else ''} was killed{_by_signal(end)}{why}."
    # If something else explains the signal (a restart of its node, say), the program is not to
    # blame.
    if end.error_kind == "signal" and not why and early(draft, attempt, end):
        sign, place = f"signal {end.signal}", place_of(draft, attempt, end)
        return same_error(draft, end, "worker-process", sign, because, place, node)
    crash = _crash(draft, attempt, end)
    if (found := _crashed_elsewhere(draft, attempt, end, because)) is not None:
        return found
    repeats = sum(
        incident.cause == "worker-process" and incident.node == node for incident in draft.incidents
    )
    if not node or repeats < draft.run.spec.recovery.in_place_restarts_per_node:
        return Finding("worker-process", end, because, signature=crash, node=node)
    if not enough_nodes(draft, without={node}):
        because += f" That was time {repeats + 1} on this node, but no other node is free."
        return Finding("worker-process", end, because, signature=crash, node=node)
    because += f" That was time {repeats + 1} on this node: it is left out from now on."
    return Finding(
        "worker-process",
        end,
        because,
        signature=crash,
        node=node,
        exclude=[node],
        resume_as="Starting again on other nodes",
    )


def _crashed_elsewhere(
    draft: Draft, attempt: Attempt, end: AttemptEnded, because: str
) -> Finding | None:
    """The end, where the same crash came at the same place on another node, or in another job:
    nodes that come with their job are others in each, whatever their names.
    """
    crash, node = _crash(draft, attempt, end), end.failed_node
    if crash is None:
        return None
    job = draft.book.job_end_of(attempt) is not None
    before = [one for one in draft.incidents if one.error_signature == crash]
    if not any(job or one.node != node for one in before):
        return None
    place, where = place_of(draft, attempt, end), "in another job" if job else "on another node"
    detail = f"'signal {end.signal}' came {'in two jobs' if job else 'on two nodes'} {place}."
    because = f"{because} It was so {where}, too, {place}."
    return _program_crashes(end, because, detail, crash, node)


def _crash(draft: Draft, attempt: Attempt, end: AttemptEnded) -> str | None:
    """The signature of a crash at a known step; None of what may have come from outside."""
    if end.error_kind != "signal" or end.signal not in CRASHES or end.last_step is None:
        return None
    return f"signal|signal {end.signal}|{place_of(draft, attempt, end)}"


def _program_crashes(
    end: AttemptEnded, because: str, detail: str, signature: str | None, node: str | None
) -> Finding:
    return Finding(
        "worker-process",
        end,
        because,
        signature=signature,
        node=node,
        stop="failed",
        problem=problem("same-error", f"{detail}{shown(end)}"),
    )


def program_error(draft: Draft, attempt: Attempt) -> Finding | None:
    """The program failed: one more attempt; the same error at the same step stops the run, and so
    does at once an error before the run's first step that would come again on whatever nodes.
    """
    end = end_of(draft, attempt)
    if end is None or end.outcome != "failed":
        return None
    kind = end.error_kind or "unknown"
    error = end.error or f"exit code {end.exit_code}"
    place = place_of(draft, attempt, end)
    # An error that the agent has from Slurm, and not from the program, begins with "Slurm: ".
    who = "The job" if error.startswith("Slurm: ") or of_image(end) else "The program"
    if end.lasting and early(draft, attempt, end) and not trained_before(draft, attempt):
        return _lasting_error(end, error, f"{who} failed {place} with '{error}'.")
    return same_error(draft, end, kind, error, f"{who} failed {place} with '{error}'.", place)


def _lasting_error(end: AttemptEnded, error: str, because: str) -> Finding:
    """The end: no node, checkpoint or moment has a part in this error."""
    signature = f"{end.error_kind or 'unknown'}|{error}|lasting"
    return Finding(
        end.error_kind or "unknown",
        end,
        because,
        signature=signature,
        stop="failed",
        problem=problem("lasting-error", f"{because}{shown(end)}"),
    )


def _by_signal(end: AttemptEnded) -> str:
    names = {6: "SIGABRT", 7: "SIGBUS", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
    return f" by {names.get(end.signal, f'signal {end.signal}')}" if end.signal else ""

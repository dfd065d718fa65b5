"""The next attempt of a run: its number, its nodes, where it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from trainyard.domain import loss_causes, nodes
from trainyard.domain.decisions import Draft
from trainyard.domain.findings import Finding
from trainyard.domain.problems import problem
from trainyard.domain.records import Attempt


def plan_next(draft: Draft, finding: Finding | None = None) -> None:
    """Plan the next attempt, or wait for a node, or stop because a budget is used up."""
    because = f"{finding.because} " if finding else ""
    key = finding.fact.id if finding else f"plan-{_next_number(draft)}"
    if draft.attempts_left == 0:
        reason = f"{because}All {draft.run.spec.recovery.max_attempts} attempts are used."
        draft.stop("failed", reason, problem("attempts-exhausted", reason))
        draft.note(f"stop-{key}", "Stopped", reason)
    elif not nodes.enough_nodes(draft):
        wait_for_node(draft, because, key)
    else:
        resume_as = (
            finding.resume_as
            if finding
            else ("A node is back. Resuming" if draft.run.waiting_since else "Submitting the job")
        )
        message = f"{because}{_continuation(draft, resume_as)}"
        recovering = finding is not None or draft.run.waiting_since is not None
        draft.note(
            f"resume-{key}",
            "Resuming" if recovering else "Submitting",
            message,
            cause=finding.cause if finding else None,
        )
        _add_attempt(draft, message, recovering, finding.avoid if finding else ())


def _add_attempt(draft: Draft, reason: str, recovering: bool, avoid: Sequence[str]) -> None:
    _replace_others(draft)
    attempt = Attempt(
        number=_next_number(draft),
        generation=draft.run.generation,
        life=draft.run.life,
        exclude=sorted({*nodes.bad_nodes(draft), *avoid}),
        down=sorted(draft.book.lost_nodes()),
        waited_since=draft.run.waiting_since,
    )
    draft.change(attempts=[*draft.run.attempts, attempt], waiting_since=None)
    draft.status("Recovering" if recovering else "Submitting", reason)


def _next_number(draft: Draft) -> int:
    return draft.run.attempts[-1].number + 1 if draft.run.attempts else 1


def _replace_others(draft: Draft) -> None:
    """Ask for new nodes also in place of those that were lost while no attempt ran."""
    for node, fact in draft.book.lost_nodes().items():
        if draft.handle_once(f"{fact.id}-{node}"):
            draft.act(loss_causes.replacement(fact, node, loss_causes.instance_of(fact, node)))


def wait_for_node(draft: Draft, because: str, key: str) -> None:
    seconds = draft.run.spec.recovery.wait_for_node_seconds
    since = draft.run.waiting_since or draft.now
    draft.by(since + timedelta(seconds=seconds))
    have, need = nodes.usable_nodes(draft), draft.run.spec.job.nodes
    if draft.now >= since + timedelta(seconds=seconds):
        reason = (
            f"{because}{have} of {need} nodes are usable, and none came back within {seconds} s."
        )
        draft.stop("failed", reason, problem("nodes-exhausted", reason))
        draft.note(f"nodes-exhausted-{key}", "Stopped", reason)
    elif draft.run.waiting_since is None:
        reason = (
            f"{because}No spare is left: {have} of {need} nodes are usable. "
            f"Waiting up to {seconds} s for a node."
        )
        draft.change(waiting_since=draft.now)
        _replace_others(draft)
        draft.status("WaitingForNode", reason)
        draft.note(f"wait-{key}", "WaitingForNode", reason)


def _continuation(draft: Draft, resume_as: str) -> str:
    """'Resuming on other nodes from the newest whole checkpoint (step 120 as far as is known).'

    A checkpoint that is being committed at this moment may be newer. After its first step the new
    attempt reports from which step it went on, and so what the failure cost.
    """
    if not draft.run.attempts:
        return f"{resume_as}."
    newest = draft.book.newest_checkpoint()
    if newest is None:
        return f"{resume_as}; no whole checkpoint is known yet."
    return f"{resume_as} from the newest whole checkpoint ({newest} as far as is known)."

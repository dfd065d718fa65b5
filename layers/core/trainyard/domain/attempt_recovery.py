"""What a run does when its attempt is over."""

from __future__ import annotations

from trainyard.domain import causes, exclusions, loss_causes, nodes, ways
from trainyard.domain.bystanders import replace_bystanders
from trainyard.domain.decisions import Draft
from trainyard.domain.incidents import recover
from trainyard.domain.next_attempt import plan_next, wait_for_node
from trainyard.domain.records import Attempt


def judge_attempt(draft: Draft) -> None:
    """Judge the attempt that runs; plan the next one when none does."""
    if not draft.cluster_ready:
        return
    attempt = draft.attempt
    exclusions.without_exclusions(draft)
    if ways.is_leaving(draft):
        if attempt is not None and (lost := loss_causes.cluster_lost(draft, attempt)) is not None:
            recover(draft, attempt, lost)  # nobody is left to be asked
        return
    if attempt is None or attempt.ended_at is not None:
        plan_next(draft)
        return
    finding = causes.find(draft, attempt) if attempt.submitted_at is not None else None
    if finding is not None:
        recover(draft, attempt, finding)
    else:
        replace_bystanders(draft, attempt)
        if attempt.waits:
            _queued(draft, attempt)


def _queued(draft: Draft, attempt: Attempt) -> None:
    """The job waits in Slurm's queue.

    It may wait for other jobs as long as the run may last, and for missing nodes as long as for any
    node.
    """
    exclusions.review_exclusions(draft, attempt)
    if not nodes.enough_nodes(draft):
        wait_for_node(draft, "", f"queued-{attempt.number}")
    elif draft.run.waiting_since is not None:
        draft.change(waiting_since=None)
        draft.status("Recovering", f"A node is back. Attempt {attempt.number} is in Slurm's queue.")

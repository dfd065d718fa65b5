"""A run that waits for its approval."""

from __future__ import annotations

from trainyard.domain.approval_records import Approval
from trainyard.domain.decisions import Draft
from trainyard.domain.problems import problem
from trainyard.domain.records import Asked
from trainyard.domain.words import because, counted, listed, who


def still_waits(draft: Draft, approval: Approval | None) -> bool:
    """True while nobody has decided; the run stops here if it may not begin.

    Its life begins when it is approved: its limits count from then on.
    """
    run = draft.run
    if not run.waits_for_approval:
        return False
    given = run.approval
    assert given is not None
    if approval is None or approval.state == "pending":
        if draft.handle_once(f"{given.id}-needed"):
            draft.note(
                "approval", "ApprovalNeeded", f"{given.because} {_how(given)}", approvalId=given.id
            )
        draft.by(given.expires_at)
        draft.status("Waiting", f"It waits for approval {given.id}. {given.because}")
        return True
    if approval.state in ("approved", "used") and approval.argument_hash == given.argument_hash:
        names = listed([one.by.name for one in approval.approvers])
        draft.change(approval_met_at=draft.now, opened_at=draft.now)
        draft.status("Pending", f"Approved by {names}.")
        draft.note("approved", "Approved", _approved_by(approval), approvalId=given.id)
        return False
    _refused(draft, approval)
    return False


def _refused(draft: Draft, approval: Approval) -> None:
    code, type_ = "approval-denied", "ApprovalDenied"
    if approval.denied is not None:
        vote = approval.denied
        reason = f"{who(vote.by)} denied approval {approval.id}.{because(vote.reason)}"
    elif approval.state == "expired":
        code, type_ = "approval-expired", "ApprovalExpired"
        reason = f"Nobody decided on approval {approval.id} before it expired."
        if approval.approvers:
            had = counted(len(approval.approvers), "approval")
            reason = f"Approval {approval.id} expired with {had} of {approval.needed}."
    else:
        reason = f"Approval {approval.id} is {approval.state}, or is for something else."
    draft.stop("failed", reason, problem(code, reason))
    draft.note("approval-refused", type_, reason, approvalId=approval.id)


def _how(given: Asked) -> str:
    return f"Approve it with: trainyard approval approve {given.id}"


def _approved_by(approval: Approval) -> str:
    said = [
        f"{one.by.name}{f' ({one.reason})' if one.reason else ''}" for one in approval.approvers
    ]
    return f"Approved by {listed(said)}."

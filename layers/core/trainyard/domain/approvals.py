"""Who may approve what, and what a person's word makes of an approval; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from trainyard.domain.approval_records import Approval, ApprovalState, Vote
from trainyard.domain.errors import Forbidden, WrongState
from trainyard.domain.people import RolesOfPeople, matches
from trainyard.domain.records import Asked, Run
from trainyard.domain.words import counted, listed
from trainyard.domain.worth import Worth
from trainyard_contracts.people import Person


@dataclass(frozen=True)
class ApprovalRules:
    """When an approval is needed and who gives it, as the stack has it. By default never."""

    #: A run that may cost more waits for an approval; None: no run does.
    above_usd: float | None = None
    #: So many people, none of them the requester.
    needed: int = 1
    expires_after: timedelta = timedelta(days=1)
    #: Patterns of ARNs; none: the admins.
    approvers: Sequence[str] = ()

    def may_decide(self, roles: RolesOfPeople, person: Person) -> bool:
        role = roles.of(person)
        if role not in ("member", "admin"):
            return False
        return matches(self.approvers, person) if self.approvers else role == "admin"

    def trusts(self, roles: RolesOfPeople, owner: Person | None, requester: Person | None) -> bool:
        """Whether a cluster's owner could decide on what this person asks for."""
        if owner is None or requester is None or may_be_one(owner, requester):
            return False
        return self.may_decide(roles, owner)


def why_needed(rules: ApprovalRules, found: Worth) -> str | None:
    """The sentence that says why; None where no approval is needed."""
    usd = found.usd
    if rules.above_usd is None or (usd is not None and usd <= rules.above_usd):
        return None
    costs = "Its price is not known" if usd is None else f"It may cost up to {usd:.2f} USD"
    if found.own_word:
        costs = "Its price is only what hourlyUsd of its cluster's spec says"
    return (
        f"{costs}, and a run that may cost more than {rules.above_usd:g} USD needs "
        f"{counted(rules.needed, 'approval')}."
    )


def asked(
    rules: ApprovalRules,
    run_id: str,
    life: int,
    found: Worth,
    argument_hash: str,
    now: datetime,
    requester: Person | None = None,
) -> Asked | None:
    """What this life of the run has to wait for; None: nothing."""
    why = why_needed(rules, found)
    if why is None:
        return None
    return Asked(
        id=f"apr-{run_id.removeprefix('run-')}-{life}",
        because=why,
        usd=found.usd,
        needed=rules.needed,
        expires_at=now + rules.expires_after,
        argument_hash=argument_hash,
        requester=requester,
    )


def of_run(run: Run, now: datetime) -> Approval:
    """The approval that the run waits for, as it is before anybody said anything."""
    given = run.approval
    assert given is not None
    return Approval(
        id=given.id,
        action="run.submit" if run.life == 1 else "run.resume",
        subject=f"run/{run.id}",
        run_id=run.id,
        run_name=run.name,
        argument_hash=given.argument_hash,
        because=given.because,
        usd=given.usd,
        requester=given.requester or run.created_by,
        needed=given.needed,
        created_at=now,
        updated_at=now,
        expires_at=given.expires_at,
    )


def may_be_one(one: Person, other: Person) -> bool:
    """Whether both may be the same human: a role's session without a name is any of the role."""
    return (
        one.same_as(other)
        or (one.kind == "role" and matches((one.arn,), other))
        or (other.kind == "role" and matches((other.arn,), one))
    )


def refusal_to_decide(
    rules: ApprovalRules, roles: RolesOfPeople, approval: Approval, person: Person
) -> Forbidden | None:
    """Why the person has no say in it; None if they have."""
    if not rules.may_decide(roles, person):
        return Forbidden(
            f"{person.name} ({person.arn}) may not decide on approvals of this stack.",
            next_step="Ask one of its approvers: the stack's parameter Approvers names them, and "
            "if it is empty they are the admins.",
        )
    requester = approval.requester
    if requester is not None and may_be_one(requester, person):
        same = "" if requester.same_as(person) else " (or may be: a session has no name of its own)"
        return Forbidden(
            f"{person.name} ({person.arn}) asked for this{same}, and nobody decides on what they "
            "asked for themselves.",
            next_step="Ask another approver. The one who asked ends it by cancelling the run.",
        )
    return None


def approved(
    approval: Approval, vote: Vote, rules: ApprovalRules, roles: RolesOfPeople
) -> Approval:
    """With this person's word. Once more by the same person changes nothing. Raises WrongState.

    A word of somebody who has lost the right since does not count any more.
    """
    repeated = any(one.by.same_as(vote.by) for one in approval.approvers)
    if repeated and approval.state in ("pending", "approved", "used"):
        return approval
    _check_open(approval, vote.at)
    if any(may_be_one(one.by, vote.by) for one in approval.approvers):
        raise WrongState(
            f"{vote.by.name} ({vote.by.arn}) may be one of those who approved {approval.id} "
            "already: a session of the role has no name of its own.",
            next_step="Ask another approver.",
        )
    valid = [one for one in approval.approvers if rules.may_decide(roles, one.by)] + [vote]
    if len(valid) < approval.needed:
        return approval.changed(approvers=valid)
    return _decided(approval.changed(approvers=valid), "approved", vote.at)


def denied(approval: Approval, vote: Vote) -> Approval:
    """Refused by this person; one is enough. Raises WrongState."""
    given = approval.denied
    if given is not None and given.by.same_as(vote.by):
        return approval
    _check_open(approval, vote.at)
    return _decided(approval.changed(denied=vote), "denied", vote.at)


def settled(approval: Approval, now: datetime) -> Approval:
    """As the run that waits for it leaves it: an approved one is used, an old one has expired."""
    if approval.state == "approved":
        return approval.changed(state="used")
    if approval.state == "pending" and approval.expired_at(now):
        return _decided(approval, "expired", now)
    return approval


def withdrawn(approval: Approval, now: datetime) -> Approval:
    """What it was for has ended."""
    return _decided(approval, "withdrawn", now) if approval.state == "pending" else approval


def _decided(approval: Approval, state: ApprovalState, now: datetime) -> Approval:
    return approval.changed(state=state, decided_at=now)


def _check_open(approval: Approval, now: datetime) -> None:
    if approval.state == "pending" and not approval.expired_at(now):
        return
    state = "expired" if approval.expired_at(now) else approval.state
    at = approval.decided_at or approval.expires_at
    by = listed([one.by.name for one in approval.approvers])
    if approval.denied is not None:
        by = approval.denied.by.name
    words = f" by {by}" if by and state in ("approved", "used", "denied") else ""
    raise WrongState(
        f"Approval {approval.id} is {state}{words} since {at:%Y-%m-%d %H:%M:%S} UTC; it is decided "
        "once.",
        next_step=f"Look at it with trainyard approval show {approval.id}. A run that ended for "
        f"want of it asks again when it is resumed: trainyard run resume {approval.run_id}.",
    )

"""The approval of a run: asked for when a life begins, decided by people, used by the run itself.

Each change is written under the approval's version, so that of two at once one decides. A process
that dies between two writes leaves what the run's own decision, or the sweep, finds and goes on
with.
"""

from __future__ import annotations

from collections.abc import Callable

from trainyard.app.clusters.prices import listed_price
from trainyard.app.facts.waking import wake_run
from trainyard.app.runs.budgets import part_of, ways_of
from trainyard.domain import approvals
from trainyard.domain.approval_records import Approval, Vote
from trainyard.domain.errors import (
    ApprovalNotFound,
    ClusterNotFound,
    ConflictError,
    RecordUnreadable,
    RunNotFound,
    WrongState,
)
from trainyard.domain.records import Asked, Run
from trainyard.domain.turns import going
from trainyard.domain.worth import Hourly, Worth, worth
from trainyard.ports import Ports
from trainyard_contracts.cluster_base import ClusterBase
from trainyard_contracts.people import Person
from trainyard_contracts.specs import RunSpec

#: Several people may decide at once.
_TRIES = 8


def why_needed(ports: Ports, spec: RunSpec, by: Person | None = None) -> str | None:
    """The sentence that says why such a run of this person would wait for people; None if it would
    not.
    """
    rules = ports.config.approvals
    if rules.above_usd is None:  # and no price list is asked
        return None
    return approvals.why_needed(rules, _worth(ports, spec, by))


def asked_of(
    ports: Ports,
    spec: RunSpec,
    run_id: str,
    life: int,
    argument_hash: str,
    requester: Person | None = None,
) -> Asked | None:
    """What this life of the run has to wait for; None: nothing."""
    rules = ports.config.approvals
    if rules.above_usd is None:
        return None
    found = _worth(ports, spec, requester)
    now = ports.clock.now()
    return approvals.asked(rules, run_id, life, found, argument_hash, now, requester)


def _worth(ports: Ports, spec: RunSpec, by: Person | None) -> Worth:
    if spec.cluster.spec is not None:
        return worth([_hourly(ports, one) for one in ways_of(spec)], spec)
    try:
        cluster = ports.clusters.get(str(spec.cluster.name))
    except ClusterNotFound:
        return Worth(None)
    trusted = ports.config.approvals.trusts(ports.config.roles, cluster.created_by, by)
    part = part_of(spec, cluster.spec)
    return worth([_hourly(ports, cluster.spec, part, trusted=trusted)], spec)


def _hourly(ports: Ports, spec: ClusterBase, part: float = 1.0, *, trusted: bool = False) -> Hourly:
    listed, given = listed_price(ports, spec), spec.hourly_usd
    listed = None if listed is None else listed * part
    given = None if given is None else given * part
    return Hourly(listed if given is None else given, listed, given, trusted)


def decide_approval(
    ports: Ports, approval_id: str, *, by: Person, approve: bool, reason: str = ""
) -> Approval:
    """One person's word. Again by the same one changes nothing; the run that waits is woken.

    Raises ApprovalNotFound, Forbidden, and WrongState where it is decided, or is over.
    """
    rules, roles = ports.config.approvals, ports.config.roles

    def change(approval: Approval) -> Approval:
        refused = approvals.refusal_to_decide(rules, roles, approval, by)
        if refused is not None:
            raise refused
        vote = Vote(by=by, at=ports.clock.now(), reason=reason)
        if not approval.over and not is_waited_for(ports, approval):
            raise WrongState(
                f"Approval {approval_id} is for {approval.subject}, which is over.",
                next_step=f"Look at the run with trainyard run show {approval.run_id}.",
            )
        if not approve:
            return approvals.denied(approval, vote)
        return approvals.approved(approval, vote, rules, roles)

    decided = _changed(ports, approval_id, change)
    if decided.over:
        wake_run(ports, decided.run_id)
    return decided


def settle_approval(ports: Ports, run: Run) -> None:
    """Before a run decides: its approval is there, and used if it is approved, or has expired."""
    if not run.waits_for_approval or not going(run):
        return
    now = ports.clock.now()
    stored = ports.approvals.create(approvals.of_run(run, now))
    if approvals.settled(stored, now) != stored:
        _changed(ports, stored.id, lambda one: approvals.settled(one, ports.clock.now()))


def withdraw_approval(ports: Ports, run: Run) -> None:
    """After a run ended without it: nobody has to decide any more."""
    if run.waits_for_approval and not going(run):
        assert run.approval is not None
        withdraw(ports, run.approval.id)


def withdraw(ports: Ports, approval_id: str) -> None:
    try:
        _changed(ports, approval_id, lambda one: approvals.withdrawn(one, ports.clock.now()))
    except ApprovalNotFound:
        return


def is_waited_for(ports: Ports, approval: Approval) -> bool:
    """Whether the very life of the run goes on for which it was asked."""
    try:
        run = ports.runs.get(approval.run_id)
    except RunNotFound:
        return False
    except RecordUnreadable:
        return True
    same = run.approval is not None and run.approval.id == approval.id
    return same and run.waits_for_approval and going(run)


def _changed(ports: Ports, approval_id: str, change: Callable[[Approval], Approval]) -> Approval:
    for _ in range(_TRIES):
        before = ports.approvals.get(approval_id)
        after = change(before)
        if after == before:
            return before
        try:
            return ports.approvals.put(after)
        except ConflictError:
            continue
    raise ConflictError(f"approval {approval_id} is changed by many at once")

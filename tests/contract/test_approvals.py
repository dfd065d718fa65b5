"""Approvals in the table: made once, written under their version, listed by state."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from tests.support.memory import MemoryApprovals
from tests.support.store_table import new_table

from trainyard.aws.approvals import TableApprovals
from trainyard.aws.clock import SystemClock
from trainyard.domain.approval_records import Approval, Vote
from trainyard.domain.errors import ApprovalNotFound, ConflictError
from trainyard_contracts.people import named

BOB = named("arn:aws:iam::123456789012:user/bob")


def approval(number: int = 1, **fields: Any) -> Approval:
    made = datetime(2026, 11, 1, number, tzinfo=timezone.utc)
    run = f"run-01hq000000000000000000000{number}"
    return Approval(
        id=f"apr-{run[4:]}-1",
        action="run.submit",
        subject=f"run/{run}",
        run_id=run,
        argument_hash="h",
        because="It may cost up to 756.00 USD.",
        requester=named("arn:aws:iam::123456789012:user/alice"),
        created_at=made,
        updated_at=made,
        expires_at=made + timedelta(days=1),
    ).changed(**fields)


@pytest.fixture(params=["memory", "table"])
def approvals(request: pytest.FixtureRequest, dynamodb: Any) -> Any:
    if request.param == "memory":
        return MemoryApprovals(SystemClock())
    return TableApprovals(new_table(dynamodb), SystemClock())


def test_one_is_made_once_and_written_under_its_version(approvals: Any) -> None:
    made = approvals.create(approval())
    vote = Vote(by=BOB, at=made.created_at, reason="yes")
    after = approvals.put(made.changed(approvers=[vote]))
    assert approvals.create(approval()) == after  # what was said stays
    with pytest.raises(ConflictError):
        approvals.put(made.changed(state="denied"))
    assert approvals.get(made.id) == after
    with pytest.raises(ApprovalNotFound):
        approvals.get(approval(9).id)


def test_they_are_listed_newest_first_and_by_state(approvals: Any) -> None:
    first, second = approvals.create(approval(1)), approvals.create(approval(2))
    approvals.put(first.changed(state="used"))

    def ids(*states: str) -> list[str]:
        page = approvals.list(limit=5, token=None, states=frozenset(states))
        return [one.id for one in page.items]

    assert ids() == [second.id, first.id]
    assert ids("pending") == [second.id]
    assert ids("used", "denied") == [first.id]
    assert [one.id for one in approvals.pending()] == [second.id]


def test_a_page_goes_on_where_the_one_before_it_ended(approvals: Any) -> None:
    made = [approvals.create(approval(number)) for number in (1, 2)]
    page = approvals.list(limit=1, token=None)
    rest = approvals.list(limit=1, token=page.next_token)
    assert [one.id for one in (*page.items, *rest.items)] == [made[1].id, made[0].id]

"""Budgets that runs share, in the table and in memory: one by its name, written by its version."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from tests.support.memory import MemoryClock, MemoryNotices, MemoryTeamBudgets
from tests.support.store_table import new_table

from trainyard.aws.notices import TableNotices
from trainyard.aws.team_budgets import TableTeamBudgets
from trainyard.domain.errors import BudgetNotFound, ConflictError
from trainyard.domain.notices import Notice
from trainyard.domain.team_budget_records import Counted, TeamAccount, TeamBudget
from trainyard_contracts.team_budgets import TeamBudgetSpec

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=timezone.utc)


def budget(number: int = 1) -> TeamBudget:
    made = NOW + timedelta(minutes=number)
    spec = TeamBudgetSpec(label=f"team={number}", max_usd=100.0)
    return TeamBudget(name=f"team-{number}", spec=spec, created_at=made, updated_at=made)


def word(id_: str = "budget/team-1/1/2026-11/warned-0.5") -> Notice:
    return Notice(id=id_, at=NOW, type="budget.warned", message="half", budget_name="team-1")


@pytest.fixture(params=["memory", "table"])
def stores(request: pytest.FixtureRequest, dynamodb: Any) -> tuple[Any, Any]:
    """Budgets, and the notices that they write."""
    clock = MemoryClock(NOW)
    if request.param == "memory":
        found = MemoryTeamBudgets(clock)
        no_runs: Any = type("NoRuns", (), {"notices": {}})
        return found, MemoryNotices(no_runs, no_runs, found.notices)
    table = new_table(dynamodb)
    return TableTeamBudgets(table, clock), TableNotices(table, None, "bus")


def test_one_is_made_once_and_written_under_its_version(stores: tuple[Any, Any]) -> None:
    found, _ = stores
    made = found.create(budget())
    account = TeamAccount(period="2026-11", at=NOW, runs={"run-1": Counted(usd=1.5)})
    after = found.put(made.changed(account=account))
    assert found.create(budget()) == after
    with pytest.raises(ConflictError):
        found.put(made.changed(status="Deleted"))
    assert found.get(made.name) == after
    assert found.get(made.name).account.spent_usd == 1.5
    with pytest.raises(BudgetNotFound):
        found.get("team-9")


def test_one_that_is_removed_is_in_no_list_and_may_be_written_anew(
    stores: tuple[Any, Any],
) -> None:
    found, _ = stores
    first, second = found.create(budget(1)), found.create(budget(2))
    assert [one.name for one in found.list(limit=10, token=None).items] == ["team-2", "team-1"]
    gone = found.put(first.changed(status="Deleted"))
    assert [one.name for one in found.active()] == [second.name]
    assert [one.name for one in found.list(limit=10, token=None).items] == [second.name]
    found.put(gone.changed(status="Active"))
    assert {one.name for one in found.active()} == {"team-1", "team-2"}


def test_people_hear_of_what_is_written_and_of_each_word_once(stores: tuple[Any, Any]) -> None:
    found, notices = stores
    made = found.create(budget())
    after = found.put(made, [word()])
    with pytest.raises(ConflictError):
        found.put(made, [word("too-late")])
    assert [one.notice for one in notices.unsent(10)] == [word()]
    for unsent in notices.unsent(10):
        notices.sent(unsent)
    found.put(after, [word()])
    assert notices.unsent(10) == []

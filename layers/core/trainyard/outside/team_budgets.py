"""The budgets in the table."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Protocol

from trainyard.domain.notices import Notice
from trainyard.domain.team_budget_records import TeamBudget
from trainyard.outside.pages import Page


class TeamBudgets(Protocol):
    """Budgets that runs share."""

    def create(self, budget: TeamBudget) -> TeamBudget:
        """Store it, or answer with the one that is there by its name."""
        ...

    def get(self, name: str) -> TeamBudget:
        """Also one that is Deleted. Raises errors.BudgetNotFound, errors.RecordUnreadable."""
        ...

    def put(self, budget: TeamBudget, notices: Sequence[Notice] = ()) -> TeamBudget:
        """As Runs.put; people hear of the notices if it is written, of each id once."""
        ...

    def list(self, *, limit: int, token: str | None) -> Page[TeamBudget]:
        """As Runs.list, without those that are Deleted."""
        ...

    def active(self) -> builtins.list[TeamBudget]:
        """Every one that is not Deleted and that this version can read."""
        ...

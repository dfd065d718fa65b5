"""The budgets that a sweep looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trainyard.domain.records import Run
from trainyard.domain.team_budget_records import TeamBudget
from trainyard.ports import Ports


class Watched(NamedTuple):
    """A budget, and the runs that went on when the sweep began."""

    budget: TeamBudget
    active: list[Run]

    @property
    def name(self) -> str:
        return self.budget.name


def watched_budgets(ports: Ports) -> Sequence[Watched]:
    found = ports.team_budgets.active()
    active = ports.runs.active() if found else []
    return [Watched(budget, active) for budget in found]

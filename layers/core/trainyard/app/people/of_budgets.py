"""What admins ask of budgets that runs share."""

from __future__ import annotations

from collections.abc import Callable

from trainyard.app.people.audited import Audited
from trainyard.app.runs.team_budgets import remove_budget, set_budget
from trainyard.domain.audit import Act
from trainyard.domain.people import refusal_to_budget
from trainyard.domain.team_budget_records import TeamBudget
from trainyard_contracts.team_budgets import TeamBudgetSpec


class OfBudgets(Audited):
    """Set and remove."""

    def set_budget(self, name: str, spec: TeamBudgetSpec) -> TeamBudget:
        return self._as_admin(
            "budget.set", name, lambda: set_budget(self._ports, name, spec, by=self._by)
        )

    def remove_budget(self, name: str, *, reason: str = "") -> TeamBudget:
        return self._as_admin(
            "budget.remove", name, lambda: remove_budget(self._ports, name), reason
        )

    def _as_admin(
        self, what: Act, name: str, act: Callable[[], TeamBudget], reason: str = ""
    ) -> TeamBudget:
        refused = refusal_to_budget(self._ports.config.roles, self._by)
        return self._audited(self._entry(what, f"budget/{name}", reason), refused, act)

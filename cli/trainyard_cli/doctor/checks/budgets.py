"""Has the account a spending limit that is reached, or soon will be by AWS's forecast?"""

from __future__ import annotations

from collections.abc import Iterator

from ..account import Account, Json
from ..findings import Finding
from ..scope import Scope

#: The service has one endpoint.
REGION = "us-east-1"


def check(account: Account, _scope: Scope) -> Iterator[Finding]:
    number = str(account.identity["Account"])
    for budget in account.all(
        "budgets", "DescribeBudgets", "Budgets", region=REGION, AccountId=number
    ):
        limit = float((budget.get("BudgetLimit") or {}).get("Amount") or 0)
        spend = budget.get("CalculatedSpend") or {}
        if budget.get("BudgetType") != "COST" or limit <= 0:
            continue
        spent, forecast = _amount(spend, "ActualSpend"), _amount(spend, "ForecastedSpend")
        if spent >= limit:
            yield _finding(
                budget,
                f"{spent:.2f} of {limit:.2f} USD are spent: its actions may stop what you start",
            )
        elif forecast > limit:
            yield _finding(budget, f"{forecast:.2f} USD are forecast, the limit is {limit:.2f}")


def _amount(spend: Json, name: str) -> float:
    return float((spend.get(name) or {}).get("Amount") or 0)


def _finding(budget: Json, problem: str) -> Finding:
    return Finding(
        "budgets",
        "warning",
        f"budget '{budget['BudgetName']}'",
        problem,
        "Ask its owner before you start something large",
    )

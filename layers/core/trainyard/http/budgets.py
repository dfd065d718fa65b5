"""/v1/budgets: what a label's runs, or a cluster, may cost together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.runs.team_budgets import shown_budget
from trainyard.domain.team_budget_records import TeamBudget
from trainyard.http.answers import answer, documented
from trainyard.http.budget_views import SharedBudgetPage, SharedBudgetView
from trainyard.http.callers import asking
from trainyard.http.identifiers import BudgetPath
from trainyard.http.identifiers import budget_name as known
from trainyard.http.paging import DEFAULT_LIMIT, Limit, NextToken
from trainyard.http.people import Reason
from trainyard.ports import Ports
from trainyard_contracts.team_budgets import TeamBudgetSpec

TAGS = ["budgets"]


def routes(ports: Callable[[], Ports]) -> APIGatewayHttpRouter:
    router = APIGatewayHttpRouter()  # type: ignore[no-untyped-call]
    _reading(router, ports)
    _changing(router, ports)
    return router


def _answer(ports: Ports, budget: TeamBudget) -> Response[str]:
    return answer(SharedBudgetView.of_budget(budget, ports.clock.now()))


def _reading(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/budgets",
        tags=TAGS,
        operation_id="listBudgets",
        summary="List budgets that runs share, newest first",
        responses=documented(200, SharedBudgetPage, "One page of budgets"),
    )
    def listing(limit: Limit = DEFAULT_LIMIT, next_token: NextToken = None) -> Response[str]:
        page, now = ports().team_budgets.list(limit=limit, token=next_token), ports().clock.now()
        found = [SharedBudgetView.of_budget(one, now) for one in page.items]
        return answer(SharedBudgetPage.made(budgets=found, next_token=page.next_token))

    @router.get(
        "/v1/budgets/<budgetName>",
        tags=TAGS,
        operation_id="getBudget",
        summary="Show a budget: what is spent, held back and to be expected",
        responses=documented(200, SharedBudgetView, "The budget", 404),
    )
    def show(budget_name: BudgetPath) -> Response[str]:
        return _answer(ports(), shown_budget(ports(), known(budget_name)))


def _changing(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.put(
        "/v1/budgets/<budgetName>",
        tags=TAGS,
        operation_id="setBudget",
        summary="Set what a label's runs, or a cluster, may cost together; for admins",
        responses=documented(200, SharedBudgetView, "The budget", 403, 404, 409, 413, 415),
    )
    def put(budget_name: BudgetPath, spec: Annotated[TeamBudgetSpec, Body()]) -> Response[str]:
        return _answer(ports(), asking(router, ports).set_budget(known(budget_name), spec))

    @router.delete(
        "/v1/budgets/<budgetName>",
        tags=TAGS,
        operation_id="removeBudget",
        summary="Count and stop nothing for it any more; for admins",
        responses=documented(200, SharedBudgetView, "The budget, deleted", 403, 404, 409),
    )
    def remove(budget_name: BudgetPath, reason: Reason = "") -> Response[str]:
        removed = asking(router, ports).remove_budget(known(budget_name), reason=reason)
        return _answer(ports(), removed)

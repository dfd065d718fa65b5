"""/v1/approvals: what waits for people, and their word about it."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from pydantic import Field

from trainyard.domain.approval_records import Approval, ApprovalAction, ApprovalState
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.identifiers import ApprovalPath
from trainyard.http.identifiers import approval_id as known
from trainyard.http.paging import DEFAULT_LIMIT, Limit, NextToken
from trainyard.http.people import Reason
from trainyard.http.views import View
from trainyard.ports import Ports
from trainyard_contracts.people import Person

TAGS = ["approvals"]


class VoteView(View):
    """One person's word."""

    by: Person = Field(description="whose word it is")
    at: datetime = Field(description="when it was given")
    reason: str


class ApprovalView(View):
    """Something that waits for people, or that they decided."""

    id: str
    action: ApprovalAction = Field(description="what begins once it is approved")
    subject: str = Field(description="kind/name, such as run/run-...")
    run_id: str = Field(description="the run that waits")
    run_name: str = Field(description="its name, for people")
    because: str = Field(description="why it is needed")
    usd: float | None = Field(
        description="what it may cost at most, in USD; null: the price is not known"
    )
    requester: Person | None = Field(description="who asked for it, and does not decide on it")
    needed: int = Field(description="so many people have to approve it")
    approvers: list[VoteView] = Field(description="who approved it so far")
    denied: VoteView | None = Field(description="who denied it; null: nobody")
    state: ApprovalState = Field(
        description="used: the run has begun; withdrawn: the run ended before anybody decided"
    )
    created_at: datetime
    expires_at: datetime = Field(description="nobody can approve it after that")
    decided_at: datetime | None = Field(description="null: nobody has")


class ApprovalPage(View):
    """One page of approvals, newest first."""

    approvals: list[ApprovalView] = Field(description="one page of approvals, newest first")
    next_token: str | None


def routes(ports: Callable[[], Ports]) -> APIGatewayHttpRouter:
    """The routes of approvals; verbs first, as in runs."""
    router = APIGatewayHttpRouter()  # type: ignore[no-untyped-call]
    _verbs(router, ports)
    _readings(router, ports)
    return router


def _view(ports: Ports, approval: Approval) -> ApprovalView:
    """Expired by the time, whether or not it is written down."""
    state = "expired" if approval.expired_at(ports.clock.now()) else approval.state
    denied = VoteView.of(approval.denied) if approval.denied is not None else None
    votes = [VoteView.of(one) for one in approval.approvers]
    return ApprovalView.of(approval, state=state, approvers=votes, denied=denied)


def _verbs(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    responses = documented(200, ApprovalView, "The approval", 403, 404, 409)

    def decided(approval: str, reason: str, *, approve: bool) -> Response[str]:
        asker = asking(router, ports)
        done = asker.decide_approval(known(approval), approve=approve, reason=reason)
        return answer(_view(ports(), done))

    @router.post(
        "/v1/approvals/<approvalId>:approve",
        tags=TAGS,
        operation_id="approve",
        summary="Approve it: with enough of them the run begins by itself",
        responses=responses,
    )
    def approve(approval: ApprovalPath, reason: Reason = "") -> Response[str]:
        return decided(approval, reason, approve=True)

    @router.post(
        "/v1/approvals/<approvalId>:deny",
        tags=TAGS,
        operation_id="deny",
        summary="Deny it: the run ends, and says who denied it and why",
        responses=responses,
    )
    def deny(approval: ApprovalPath, reason: Reason = "") -> Response[str]:
        return decided(approval, reason, approve=False)


def _readings(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/approvals",
        tags=TAGS,
        operation_id="listApprovals",
        summary="List what waits for people and what they decided, newest first",
        responses=documented(200, ApprovalPage, "One page of approvals"),
    )
    def listing(
        limit: Limit = DEFAULT_LIMIT,
        next_token: NextToken = None,
        state: Annotated[
            ApprovalState | None, Query(description="only those in this state, such as pending")
        ] = None,
    ) -> Response[str]:
        states = frozenset({state}) if state is not None else frozenset()
        page = ports().approvals.list(limit=limit, token=next_token, states=states)
        found = [_view(ports(), one) for one in page.items]
        return answer(ApprovalPage.made(approvals=found, next_token=page.next_token))

    @router.get(
        "/v1/approvals/<approvalId>",
        tags=TAGS,
        operation_id="getApproval",
        summary="Show what waits, why, and who said what",
        responses=documented(200, ApprovalView, "The approval", 404),
    )
    def show(approval: ApprovalPath) -> Response[str]:
        return answer(_view(ports(), ports().approvals.get(known(approval))))

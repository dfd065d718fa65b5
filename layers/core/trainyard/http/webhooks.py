"""/v1/webhooks: receivers of events, and what became of what was sent to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from trainyard.app.webhooks.manage import shown_webhook
from trainyard.http.answers import answer, documented
from trainyard.http.callers import asking
from trainyard.http.delivery_views import DeliveryView
from trainyard.http.identifiers import IdempotencyKey, WebhookPath
from trainyard.http.identifiers import webhook_id as known
from trainyard.http.paging import DEFAULT_LIMIT, Limit, NextToken
from trainyard.http.people import Reason
from trainyard.http.webhook_views import WebhookPage, WebhookSummary, WebhookView, WebhookWithSecret
from trainyard.ports import Ports
from trainyard_contracts.webhooks import WebhookSpec

TAGS = ["webhooks"]
#: Deliveries that are shown.
NEWEST = 20


def routes(ports: Callable[[], Ports]) -> APIGatewayHttpRouter:
    """The routes of webhooks; verbs first, as in runs."""
    router = APIGatewayHttpRouter()  # type: ignore[no-untyped-call]
    _verbs(router, ports)
    _collection(router, ports)
    _one(router, ports)
    return router


def _verbs(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.post(
        "/v1/webhooks/<webhookId>:rotate",
        tags=TAGS,
        operation_id="rotateWebhook",
        summary="Make a new secret; the one before it signs beside it for a day",
        responses=documented(200, WebhookWithSecret, "The webhook, with its new secret", 403, 404),
    )
    def rotate(webhook: WebhookPath, reason: Reason = "") -> Response[str]:
        rotated, secret = asking(router, ports).rotate_webhook(known(webhook), reason=reason)
        return answer(WebhookWithSecret.of_webhook(rotated, secret=secret))

    @router.post(
        "/v1/webhooks/<webhookId>:redeliver",
        tags=TAGS,
        operation_id="redeliver",
        summary="Send a delivery once more; a webhook that was disabled is active again",
        responses=documented(202, DeliveryView, "The delivery, which waits", 403, 404, 409),
    )
    def again(
        webhook: WebhookPath,
        delivery: Annotated[str, Query(max_length=100, description="its id (msg-...)")],
        reason: Reason = "",
    ) -> Response[str]:
        asked = asking(router, ports).redeliver(known(webhook), delivery, reason=reason)
        return answer(
            DeliveryView.of_delivery(asked), status=202, location=f"/v1/webhooks/{known(webhook)}"
        )


def _collection(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.post(
        "/v1/webhooks",
        tags=TAGS,
        operation_id="addWebhook",
        summary="Send events to an address; only this answer has the secret that signs them",
        responses=documented(
            201, WebhookWithSecret, "The webhook, with its secret", 403, 409, 413, 415
        ),
    )
    def add(
        spec: Annotated[WebhookSpec, Body()], idempotency_key: IdempotencyKey = None
    ) -> Response[str]:
        made, secret = asking(router, ports).add_webhook(spec, idempotency_key=idempotency_key)
        view = WebhookWithSecret.of_webhook(made, secret=secret)
        return answer(view, status=201, location=f"/v1/webhooks/{made.id}")

    @router.get(
        "/v1/webhooks",
        tags=TAGS,
        operation_id="listWebhooks",
        summary="List webhooks, newest first",
        responses=documented(200, WebhookPage, "One page of webhooks"),
    )
    def listing(limit: Limit = DEFAULT_LIMIT, next_token: NextToken = None) -> Response[str]:
        page = ports().webhooks.list(limit=limit, token=next_token)
        found = [WebhookSummary.of_webhook(one) for one in page.items]
        return answer(WebhookPage.made(webhooks=found, next_token=page.next_token))


def _one(router: APIGatewayHttpRouter, ports: Callable[[], Ports]) -> None:
    @router.get(
        "/v1/webhooks/<webhookId>",
        tags=TAGS,
        operation_id="getWebhook",
        summary="Show a webhook and its newest deliveries",
        responses=documented(200, WebhookView, "The webhook", 404),
    )
    def show(webhook: WebhookPath) -> Response[str]:
        found = shown_webhook(ports(), known(webhook))
        newest = ports().webhooks.deliveries(found.id, at_most=NEWEST)
        return answer(WebhookView.whole(found, newest))

    @router.delete(
        "/v1/webhooks/<webhookId>",
        tags=TAGS,
        operation_id="removeWebhook",
        summary="Send nothing more, and delete its secret",
        responses=documented(200, WebhookSummary, "The webhook, deleted", 403, 404, 409),
    )
    def remove(webhook: WebhookPath, reason: Reason = "") -> Response[str]:
        removed = asking(router, ports).remove_webhook(known(webhook), reason=reason)
        return answer(WebhookSummary.of_webhook(removed))

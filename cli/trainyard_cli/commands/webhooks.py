"""`trainyard webhook ...`: addresses of your own that are sent events, signed."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trainyard_sdk.client import Json

from ..context import context_of
from ..screen.fitting import print_fitting
from ..screen.output import ago, date, out, print_fields, print_json, print_table, styled, table
from ..screen.words import name_of
from .people import Reason

webhooks = typer.Typer(no_args_is_help=True, help="Webhooks: addresses that are sent events.")

WebhookId = Annotated[str, typer.Argument(metavar="WEBHOOK", help="its id (wh-...)")]


@webhooks.command()
def add(
    typer_context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="https://...")],
    type_: Annotated[
        list[str] | None, typer.Option("--type", help="such as run.failed; repeat it; none: all")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE that runs must carry; repeat it")
    ] = None,
    description: Annotated[str, typer.Option(help="whose it is, and what it does")] = "",
) -> None:
    """Send events to an address; prints the secret that signs them, once."""
    context = context_of(typer_context)
    labels = dict(_label(one) for one in label or [])
    spec = {"url": url, "types": type_ or [], "labels": labels, "description": description}
    _print_secret(context.json, context.client.add_webhook(spec))


@webhooks.command("ls")
def list_webhooks(
    typer_context: typer.Context,
    limit: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=1000, help="newest so many")
    ] = 50,
) -> None:
    """List webhooks, newest first."""
    context = context_of(typer_context)
    found = context.client.webhooks(at_most=limit)
    if context.json:
        print_json({"webhooks": found})
        return
    rows = [
        (
            one["id"],
            styled(one["status"]),
            escape(one["url"]),
            escape(", ".join(one["types"]) or "all"),
            name_of(one["createdBy"]),
            ago(one["createdAt"]),
        )
        for one in found
    ]
    if rows:
        heads = ["webhook", "status", "url", "types", "added by", "age"]
        print_fitting(heads, rows, ["types", "added by", "age", "url"])
    else:
        out.print("There is no webhook.")


@webhooks.command()
def show(typer_context: typer.Context, webhook: WebhookId) -> None:
    """Show a webhook, and what became of the newest deliveries."""
    context = context_of(typer_context)
    found = context.client.webhook(webhook)
    if context.json:
        print_json(found)
        return
    _print(found)
    rows = [
        (
            one["id"],
            one["type"],
            styled(one["state"]),
            len(one["tries"]),
            escape(_last(one)),
            date(one["nextTryAt"]) if one["nextTryAt"] else "",
        )
        for one in found["deliveries"]
    ]
    if rows:
        print_table(table(["delivery", "type", "state", "tries", "last", "next"], rows))


@webhooks.command()
def rotate(typer_context: typer.Context, webhook: WebhookId, reason: Reason = None) -> None:
    """Make a new secret; the one before it signs beside it for a day."""
    context = context_of(typer_context)
    _print_secret(context.json, context.client.rotate_webhook(webhook, reason=reason))


@webhooks.command()
def redeliver(
    typer_context: typer.Context,
    webhook: WebhookId,
    delivery: Annotated[str, typer.Argument(metavar="DELIVERY", help="its id (msg-...)")],
    reason: Reason = None,
) -> None:
    """Send a delivery once more; a webhook that was disabled is active again."""
    context = context_of(typer_context)
    found = context.client.redeliver(webhook, delivery, reason=reason)
    if context.json:
        print_json(found)
    else:
        out.print(f"{found['id']} is sent within a minute.")


@webhooks.command("rm")
def remove(typer_context: typer.Context, webhook: WebhookId, reason: Reason = None) -> None:
    """Send nothing more, and delete its secret."""
    context = context_of(typer_context)
    found = context.client.remove_webhook(webhook, reason=reason)
    if context.json:
        print_json(found)
    else:
        out.print(f"{found['id']} is sent nothing more.")


def _label(text: str) -> tuple[str, str]:
    key, found, value = text.partition("=")
    if not found:
        raise typer.BadParameter(f"'{text}' is not KEY=VALUE", param_hint="--label")
    return key, value


def _last(delivery: Json) -> str:
    if not delivery["tries"]:
        return ""
    last = delivery["tries"][-1]
    return str(last["said"] or last["status"] or "")


def _print_secret(as_json: bool, found: Json) -> None:
    if as_json:
        print_json(found)
        return
    _print(found)
    if found["secret"] is None:
        out.print(f"Its secret was in an answer before: trainyard webhook rotate {found['id']}")
    else:
        out.print(f"secret: {found['secret']}\nNothing shows it again.", soft_wrap=True)


def _print(found: Json) -> None:
    labels = (f"{key}={value}" for key, value in found["labels"].items())
    print_fields(
        {
            "webhook": found["id"],
            "status": styled(found["status"]),
            "because": escape(found["disabledBecause"]) or None,
            "url": escape(found["url"]),
            "types": escape(", ".join(found["types"])) or "all",
            "labels": escape(", ".join(labels)) or None,
            "description": escape(found["description"]) or None,
            "added by": name_of(found["createdBy"]),
            "failing since": date(found["failingSince"]) if found["failingSince"] else None,
            "held until": date(found["heldUntil"]) if found["heldUntil"] else None,
        }
    )

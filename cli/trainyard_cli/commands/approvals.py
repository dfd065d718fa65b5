"""`trainyard approval ...`: what waits for people, and your word about it."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from rich.markup import escape

from trainyard_sdk.client import Json

from ..context import context_of
from ..screen.fitting import print_fitting
from ..screen.output import ago, date, out, print_fields, print_json, styled
from ..screen.words import name_of
from .people import Reason

approvals = typer.Typer(no_args_is_help=True, help="Approvals: runs that wait for people.")

ApprovalId = Annotated[str, typer.Argument(metavar="APPROVAL", help="its id (apr-...)")]
State = Literal["pending", "approved", "denied", "expired", "used", "withdrawn"]


@approvals.command("ls")
def list_approvals(
    typer_context: typer.Context,
    state: Annotated[State | None, typer.Option(help="only these, such as pending")] = None,
    limit: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=1000, help="newest so many")
    ] = 50,
) -> None:
    """List approvals, newest first."""
    context = context_of(typer_context)
    found = context.client.approvals(state=state, at_most=limit)
    if context.json:
        print_json({"approvals": found})
        return
    rows = [
        (
            one["id"],
            styled(one["state"]),
            escape(one.get("runName") or one["subject"]),
            name_of(one["requester"]),
            _usd(one),
            f"{len(one['approvers'])}/{one['needed']}",
            ago(one["createdAt"]),
        )
        for one in found
    ]
    if rows:
        heads = ["approval", "state", "of", "asked by", "at most", "approved", "age"]
        print_fitting(heads, rows, ["age", "asked by", "of", "at most"])
    else:
        out.print("Nothing waits for people, and nothing did.")


@approvals.command()
def show(typer_context: typer.Context, approval: ApprovalId) -> None:
    """Show what waits, why, and who said what."""
    context = context_of(typer_context)
    _print(context.json, context.client.approval(approval))


@approvals.command()
def approve(typer_context: typer.Context, approval: ApprovalId, reason: Reason = None) -> None:
    """Approve it: with enough approvals the run begins by itself."""
    context = context_of(typer_context)
    _print(context.json, context.client.approve(approval, reason=reason))


@approvals.command()
def deny(typer_context: typer.Context, approval: ApprovalId, reason: Reason = None) -> None:
    """Deny it: the run ends, and says who denied it and why."""
    context = context_of(typer_context)
    _print(context.json, context.client.deny(approval, reason=reason))


def _of(found: Json) -> str:
    """The run's name, where the API knows it, and its id."""
    name = found.get("runName")
    return escape(f"{name} ({found['subject']})" if name else found["subject"])


def _usd(found: Json) -> str:
    return "not known" if found["usd"] is None else f"{found['usd']:.2f} USD"


def _said(vote: Json) -> str:
    why = f" ({vote['reason']})" if vote["reason"] else ""
    return escape(f"{vote['by']['name']}{why}")


def _print(as_json: bool, found: Json) -> None:
    if as_json:
        print_json(found)
        return
    print_fields(
        {
            "approval": found["id"],
            "state": styled(found["state"]),
            "of": _of(found),
            "asked by": name_of(found["requester"]),
            "because": escape(found["because"]),
            "at most": _usd(found),
            "needed": found["needed"],
            "approved by": ", ".join(map(_said, found["approvers"])) or None,
            "denied by": _said(found["denied"]) if found["denied"] else None,
            "expires": date(found["expiresAt"]),
        }
    )

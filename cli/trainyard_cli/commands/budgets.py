"""`trainyard budget ...`: what a label's runs, or a cluster, may cost together."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer
from rich.markup import escape

from trainyard_sdk.client import Json

from ..context import context_of
from ..screen.fitting import print_fitting
from ..screen.output import date, out, print_fields, print_json, styled
from ..screen.words import name_of
from .people import Reason

budgets = typer.Typer(no_args_is_help=True, help="Budgets that runs share.")

BudgetName = Annotated[str, typer.Argument(metavar="BUDGET", help="its name")]


@budgets.command("set")
def set_budget(
    typer_context: typer.Context,
    budget: BudgetName,
    max_usd: Annotated[float, typer.Option(help="runs are stopped before they cost more")],
    label: Annotated[str | None, typer.Option(help="KEY=VALUE that its runs carry")] = None,
    cluster: Annotated[str | None, typer.Option(help="the cluster, used and idle")] = None,
    per: Annotated[
        Literal["month", "total"] | None, typer.Option(help="month: of UTC, each anew")
    ] = None,
    warn_at: Annotated[
        list[float] | None, typer.Option(help="a part of the sum, such as 0.8; repeat it")
    ] = None,
    tail_seconds: Annotated[
        int | None, typer.Option(help="held back for the end of each run")
    ] = None,
) -> None:
    """Set a budget, or change one: what is not named stays as it is. For admins."""
    context = context_of(typer_context)
    asked: dict[str, Any] = {
        "label": label,
        "cluster": cluster,
        "maxUsd": max_usd,
        "per": per,
        "warnAt": warn_at,
        "tailSeconds": tail_seconds,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    found = context.client.set_budget(budget, {**_there(context.client, budget, given), **given})
    if context.json:
        print_json(found)
    else:
        _print(found)


def _there(client: Any, name: str, given: Json) -> Json:
    """What the budget has so far, if it is for the same label or cluster."""
    one = next((found for found in client.budgets() if found["name"] == name), None)
    if one is None:
        return {}
    kept = {field: one[field] for field in ("per", "warnAt", "tailSeconds")}
    if "label" in given or "cluster" in given:
        return kept
    return {**kept, **{key: one[key] for key in ("label", "cluster") if one[key] is not None}}


@budgets.command("ls")
def list_budgets(
    typer_context: typer.Context,
    limit: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=1000, help="newest so many")
    ] = 100,
) -> None:
    """List budgets, newest first."""
    context = context_of(typer_context)
    found = context.client.budgets(at_most=limit)
    if context.json:
        print_json({"budgets": found})
        return
    rows = [
        (
            escape(one["name"]),
            escape(_whose(one)),
            one["period"],
            styled(one["status"]),
            f"{one['spentUsd']:.2f} of {one['maxUsd']:g}",
            _usd(one["forecastUsd"]),
            date(one["stopsAt"]) if one["stopsAt"] else "",
        )
        for one in found
    ]
    if rows:
        columns = ["budget", "of", "period", "status", "USD spent", "forecast", "stops"]
        print_fitting(columns, rows, ["forecast", "period", "stops", "of"])
    else:
        out.print("There is no budget.")


@budgets.command()
def show(typer_context: typer.Context, budget: BudgetName) -> None:
    """Show a budget: what is spent, held back and to be expected."""
    context = context_of(typer_context)
    found = context.client.budget(budget)
    if context.json:
        print_json(found)
    else:
        _print(found)


@budgets.command("rm")
def remove(typer_context: typer.Context, budget: BudgetName, reason: Reason = None) -> None:
    """Count and stop nothing for it any more. For admins."""
    context = context_of(typer_context)
    found = context.client.remove_budget(budget, reason=reason)
    if context.json:
        print_json(found)
    else:
        out.print(f"Budget {escape(found['name'])} is removed.", soft_wrap=True)


def _whose(found: Json) -> str:
    return str(found["label"] or f"cluster {found['cluster']}")


def _usd(amount: float | None) -> str:
    return "" if amount is None else f"{amount:.2f}"


def _print(found: Json) -> None:
    unpriced = found["unpriced"]
    print_fields(
        {
            "budget": escape(found["name"]),
            "of": escape(_whose(found)),
            "status": styled(found["status"]),
            "period": f"{found['period']}" + (" (UTC)" if found["per"] == "month" else ""),
            "spent": f"{found['spentUsd']:.2f} of {found['maxUsd']:g} USD",
            "held back": f"{found['heldBackUsd']:.2f} USD for the end of what goes on",
            "an hour costs": f"{found['hourlyUsd']:g} USD now",
            "forecast": f"{_usd(found['forecastUsd'])} USD at the period's end"
            if found["forecastUsd"] is not None
            else None,
            "stops": date(found["stopsAt"]) if found["stopsAt"] else None,
            "without price": unpriced or None,
            "counted at": date(found["at"]) if found["at"] else "within a minute",
            "set by": name_of(found["createdBy"]),
        }
    )

"""`trainyard costs`, `trainyard run cost` and `trainyard cluster cost`: what it cost, what for."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from typing import Annotated, Literal

import typer
from rich.markup import escape

from trainyard_sdk.client import Json

from ..context import context_of
from ..screen.fitting import print_fitting
from ..screen.output import date, out, print_fields, print_json, print_table, seconds_text, table
from . import filters
from .meant import RunGiven, run_meant

Output = Annotated[
    Literal["table", "json", "csv"], typer.Option("--output", "-o", help="csv: for a spreadsheet")
]
_COLUMNS = ("key", "runs", "usd", "unpriced", "usefulUsd", "nodeSeconds")
_LEDGER = ("cause", "seconds", "nodeSeconds", "usd")


def cost(typer_context: typer.Context, run: RunGiven, output: Output = "table") -> None:
    """What a run has cost so far, and what its nodes did for it.

    For example: trainyard run cost latest
    """
    context = context_of(typer_context)
    found = context.client.run_cost(run_meant(context, run))
    if context.json or output == "json":
        print_json(found)
    elif output == "csv":
        _print_csv(_LEDGER, found["ledger"])
    else:
        _print_run(found)


def _print_run(found: Json) -> None:
    budget = found.get("budget") or {}
    print_fields({
        "run": found["runId"],
        "cost": f"{_usd(found['usd'])}{'' if found['final'] else ' so far'}",
        "not known": escape(found.get("reason") or "") or None,
        "price": _price(found["prices"][-1]) if found["prices"] else None,
        "node hours": f"{found['nodeSeconds'] / 3600:.2f}",
        "budget": _budget(budget) if budget else None,
        "stops": date(budget["stopsAt"]) if budget.get("stopsAt") else None,
    })  # fmt: skip
    rows = [
        [
            line["cause"],
            seconds_text(line["seconds"]),
            f"{line['nodeSeconds'] / 3600:.2f}",
            _usd(line["usd"]),
        ]
        for line in found["ledger"]
    ]
    if rows:
        print_table(table(["what for", "time", "node hours", "cost"], rows))


def _budget(budget: Json) -> str:
    return (
        f"{budget['spentUsd']:.2f} of {budget['maxUsd']:g} USD spent, "
        f"{budget['heldBackUsd']:.2f} held back"
    )


def _price(span: Json) -> str:
    if span["hourlyUsd"] is None:
        return "not known"
    source = "the price list" if span["source"] == "list" else "the spec"
    part = "" if span["share"] == 1 else f"; this run has {span['share']:.0%} of the nodes"
    return f"{span['hourlyUsd']:g} USD an hour by {source} of {date(span['since'])}{part}"


def cluster_cost(typer_context: typer.Context, name: str, output: Output = "table") -> None:
    """What a cluster has cost so far, by run, and idle."""
    context = context_of(typer_context)
    found = context.client.cluster_cost(name)
    rows = [*found["runs"], {"runId": "(idle)", "usd": found["idleUsd"]}]
    if context.json or output == "json":
        print_json(found)
    elif output == "csv":
        _print_csv(("runId", "usd"), rows)
    else:
        print_fields({
            "cluster": escape(found["clusterName"]),
            "cost": f"{_usd(found['usd'])} so far",
            "not known": escape(found.get("reason") or "") or None,
            "price": _price(found["prices"][-1]) if found["prices"] else None,
        })  # fmt: skip
        print_table(table(["run", "cost"], [[row["runId"], _usd(row["usd"])] for row in rows]))


def costs(
    typer_context: typer.Context,
    by: Annotated[
        str, typer.Option(help="owner, cluster, run, or label:KEY such as label:team")
    ] = "owner",
    label: filters.Label = None,
    since: filters.Since = None,
    until: filters.Until = None,
    output: Output = "table",
) -> None:
    """What runs cost, added up.

    For example: trainyard costs --by label:team --since 30d -o csv
    """
    context = context_of(typer_context)
    found = context.client.costs(by=by, label=label, since=since, until=until)
    if context.json or output == "json":
        print_json(found)
    elif output == "csv":
        _print_csv(_COLUMNS, found["totals"])
    elif not found["totals"]:
        out.print("No run is like that.")
    else:
        rows = [
            [
                escape(one["key"] or "-"),
                str(one["runs"]),
                _usd(one["usd"]) + (f" and {one['unpriced']} unknown" if one["unpriced"] else ""),
                _usd(one["usefulUsd"]),
            ]
            for one in found["totals"]
        ]
        print_fitting([by, "runs", "cost", "of it useful"], rows, [by, "of it useful"])
    if found["leftOut"]:
        typer.echo("There are more runs than these; ask for less with --since.", err=True)


def _usd(amount: float | None) -> str:
    return "not known" if amount is None else f"{amount:.2f} USD"


def _print_csv(columns: Sequence[str], rows: Sequence[Json]) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row.get(column)) for column in columns])


def _cell(value: object) -> object:
    """A text that a spreadsheet would take for a formula is kept a text."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@"):
        return f"'{value}"
    return "" if value is None else value

"""What a dry run of many runs answers: their prices, their times, and what would be refused."""

from __future__ import annotations

from collections.abc import Iterable

import typer
from rich.markup import escape

from trainyard_sdk.client import Json

from ..context import Context
from ..problems import FAILED
from ..screen.output import err, out, print_fields, print_json, print_table, table

#: How an API's answer begins that only says what would go up first.
_NOT_UP = "job.workdir:"


def print_array_plan(context: Context, plan: Json, upload: Json | None) -> None:
    """Ends the command with 1 if the array would be refused."""
    plan = {**plan, "refused": _refused(plan, upload is not None)}
    if context.json:
        print_json(plan if upload is None else {**plan, "upload": upload})
    else:
        first = plan.get("first") or {}
        given = ", ".join(f"{name}={value}" for name, value in plan["firstParameters"].items())
        print_fields(
            {
                "members": plan["total"],
                "first": escape(f"{plan['firstName']}: {given}"),
                "waves": _waves(plan["waves"]),
                "one costs": price(plan["one"]),
                "all cost": price(plan["all"]),
                "operation": first.get("operation"),
            }
        )
        _warn(first, upload is not None)
    _end(context, plan["refused"])


def print_schedule_plan(context: Context, plan: Json, uploads: dict[str, Json]) -> None:
    """Ends the command with 1 if the schedule, or a run of it, would be refused."""
    plan = {**plan, "refused": _refused(plan, bool(uploads))}
    if context.json:
        print_json({**plan, "uploads": uploads} if uploads else plan)
    else:
        times = "\n".join(f"{one['local']} ({one['at']})" for one in plan["nextTimes"])
        print_fields(
            {
                "zone": escape(plan["timezone"]),
                "next": times,
                "each time costs": price(plan["one"]),
                f"{len(plan['nextTimes'])} times cost": price(plan["all"]),
            }
        )
        _runs(plan["runs"], uploads)
    _end(context, plan["refused"])


def print_chain_plan(
    context: Context, runs: list[Json], refused: list[Json], uploads: dict[str, Json]
) -> None:
    """Ends the command with 1 if a run of the chain would be refused."""
    cost = {name: _sum(runs, name) for name in ("expectedUsd", "mostUsd")}
    if context.json:
        print_json({"runs": runs, "all": cost, "refused": refused, "uploads": uploads})
    else:
        print_fields({"all cost": price(dict(cost))})
        _runs(runs, uploads)
    _end(context, refused)


def price(found: Json) -> str:
    """'6.00 USD an hour, 9.00 USD expected, 36.00 USD at most', as far as it is known."""
    words = {"hourlyUsd": "an hour", "expectedUsd": "expected", "mostUsd": "at most"}
    known = [
        f"{found[name]:.2f} USD {word}"
        for name, word in words.items()
        if found.get(name) is not None
    ]
    return ", ".join(known) or "not known"


def _sum(runs: Iterable[Json], name: str) -> float | None:
    every = [(one["plan"] or {}).get(name) for one in runs]
    known = [float(usd) for usd in every if usd is not None]
    return round(sum(known), 2) if len(known) == len(every) else None


def _waves(waves: list[int]) -> str:
    """'2 of 20 at once, then 5'."""
    full = [one for one in waves if one == waves[0]]
    rest = f", then {waves[-1]}" if len(full) < len(waves) else ""
    return f"{len(full)} of {waves[0]} at once{rest}"


def _runs(runs: list[Json], uploads: dict[str, Json]) -> None:
    rows = [
        (
            escape(one["name"]),
            (one["plan"] or {}).get("operation") or "-",
            price(one["plan"]) if one["plan"] else "would be refused",
        )
        for one in runs
    ]
    print_table(table(["run", "operation", "costs"], rows))
    for one in runs:
        _warn(one["plan"] or {}, one["name"] in uploads)


def _warn(plan: Json, goes_up: bool) -> None:
    for warning in plan.get("warnings") or []:
        if not (goes_up and warning.startswith(_NOT_UP)):
            out.print(f"[yellow]warning[/] {escape(warning)}", soft_wrap=True)


def _refused(plan: Json, goes_up: bool) -> list[Json]:
    """That a directory is not there yet is no news where it would go up first."""
    return [one for one in plan["refused"] if not (goes_up and one["code"] == "upload-incomplete")]


def _end(context: Context, refused: list[Json]) -> None:
    if not context.json:
        for one in refused:
            of = f"{one['run']}: " if one["run"] else ""
            words = f"{of}{one['detail']} {one['nextStep']}".rstrip()
            out.print(f"[red]would be refused[/] {escape(words)}", soft_wrap=True)
        err.print("Nothing was done.")
    if refused:
        raise typer.Exit(FAILED)

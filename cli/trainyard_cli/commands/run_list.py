"""`trainyard run ls` and `trainyard run label`: runs found by what they are, and by labels."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from ..api.client import Json
from ..context import context_of
from ..screen.output import ago, out, print_json, print_table, print_with_reasons, styled, table
from ..screen.words import labels_text
from . import filters
from .meant import RunGiven, run_meant

#: Columns that a reason needs beside the others; on less it goes into a line of its own.
_REASON_COLUMNS = 40


def list_runs(
    typer_context: typer.Context,
    status: filters.Status = None,
    label: filters.Label = None,
    name: filters.Name = None,
    cluster: Annotated[str | None, typer.Option(help="only on the cluster of this name")] = None,
    since: filters.Since = None,
    until: filters.Until = None,
    mine: filters.Mine = False,
    by: filters.By = None,
    order: filters.Order = "newest",
    limit: filters.Limit = 50,
    show_labels: filters.ShowLabels = False,
    output: filters.Output = "table",
) -> None:
    """List runs, newest first.

    For example: trainyard run ls --label exp=3 --status failed --since 2d
    """
    context = context_of(typer_context)
    asked = filters.asked(
        status=status, label=label, name=name, since=since, until=until, mine=mine, by=by,
        order=order,
    )  # fmt: skip
    runs = context.client.runs(at_most=limit, cluster=cluster, **asked)
    if context.json or output == "json":
        print_json({"runs": runs})
    elif output == "id":
        for run in runs:
            out.print(run["id"], soft_wrap=True)
    elif runs:
        _print(runs, show_labels=show_labels)
    elif cluster or any(asked.values()):
        out.print("No run is like that. All of them: trainyard run ls")
    else:
        out.print("No runs yet. Start one: trainyard run submit FILE")


def _print(runs: list[Json], *, show_labels: bool) -> None:
    columns = ["run", "name", "status", "age", *(["labels"] if show_labels else [])]
    rows = [
        [
            run["id"],
            escape(run["name"]),
            styled(run["status"]),
            ago(run["createdAt"]),
            *([escape(labels_text(run.get("labels")))] if show_labels else []),
        ]
        for run in runs
    ]
    reasons = [escape(run["reason"]) for run in runs]
    if out.width >= _least(rows) + _REASON_COLUMNS:
        whole = [[*row, reason] for row, reason in zip(rows, reasons, strict=True)]
        print_table(table([*columns, "reason"], whole))
    else:
        print_with_reasons(table(columns, rows), reasons)


def _least(rows: list[list[str]]) -> int:
    """Columns that the rows need without their reasons, about."""
    return max(sum(len(cell) + 2 for cell in row) for row in rows)


def label(typer_context: typer.Context, run: RunGiven, changes: filters.LabelChanges) -> None:
    """Set labels of a run, or take them away; the others stay.

    For example: trainyard run label latest exp=3 -old
    """
    context = context_of(typer_context)
    given = filters.label_changes(changes)
    document = context.client.label_run(run_meant(context, run), given)
    if context.json:
        print_json(document)
    else:
        labels = escape(labels_text(document.get("labels")))
        out.print(f"{document['id']}: {labels}", soft_wrap=True)

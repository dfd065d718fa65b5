"""`trainyard run ls`, `run label` and `run priority`: runs found, labelled and put in order."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trainyard_sdk.client import Json

from ..context import context_of
from ..screen.output import ago, out, print_json, print_table, print_with_reasons, styled, table
from ..screen.words import labels_text, name_of
from . import filters
from .meant import RunGiven, run_meant

#: Columns that owner and reason need beside the others; on less they go into lines of their own.
_BESIDE_COLUMNS = 50


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
    elif mine and not cluster and sum(map(bool, asked.values())) == 1:
        out.print("No runs of yours yet. Start one: trainyard run submit FILE")
    elif cluster or any(asked.values()):
        out.print("No run is like that. All of them: trainyard run ls")
    else:
        out.print("No runs yet. Start one: trainyard run submit FILE")


def _print(runs: list[Json], *, show_labels: bool) -> None:
    """Where there is room, all of a run on one line; else its owner and reason below it."""
    columns = ["run", "name", "status", "age", *(["labels"] if show_labels else [])]
    rows = [_row(run, show_labels=show_labels) for run in runs]
    owners = [name_of(run.get("createdBy")) for run in runs]
    reasons = [escape(run["reason"]) for run in runs]
    if out.width >= max(sum(len(cell) + 2 for cell in row) for row in rows) + _BESIDE_COLUMNS:
        whole = [
            [*row, owner, reason] for row, owner, reason in zip(rows, owners, reasons, strict=True)
        ]
        print_table(table([*columns, "owner", "reason"], whole))
    else:
        below = [
            f"{owner}: {reason}" if owner != "-" else reason
            for owner, reason in zip(owners, reasons, strict=True)
        ]
        print_with_reasons(table(columns, rows), below)


def _row(run: Json, *, show_labels: bool) -> list[str]:
    return [
        run["id"],
        escape(run["name"]),
        styled(run["status"]),
        ago(run["createdAt"]),
        *([escape(labels_text(run.get("labels")))] if show_labels else []),
    ]


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


def priority(
    typer_context: typer.Context,
    run: RunGiven,
    number: Annotated[
        int, typer.Argument(metavar="NUMBER", min=-100, max=100, help="0 is the usual one")
    ],
) -> None:
    """Give a run another priority: on a shared cluster a higher one has its turn first."""
    context = context_of(typer_context)
    document = context.client.set_priority(run_meant(context, run), number)
    if context.json:
        print_json(document)
    else:
        out.print(f"{document['id']}: priority {document['priority']}", soft_wrap=True)

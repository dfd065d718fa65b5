"""`trainyard cluster ls`: clusters found."""

from __future__ import annotations

import typer
from rich.markup import escape

from trainyard_sdk.client import Json

from ..cluster_groups import groups_listed, nodes_of
from ..context import context_of
from ..screen.fitting import print_fitting
from ..screen.output import ago, out, print_json, styled
from ..screen.words import labels_text, name_of
from . import filters


def list_clusters(
    typer_context: typer.Context,
    status: filters.Status = None,
    label: filters.Label = None,
    name: filters.Name = None,
    since: filters.Since = None,
    until: filters.Until = None,
    mine: filters.Mine = False,
    by: filters.By = None,
    order: filters.Order = "newest",
    limit: filters.Limit = 1000,
    show_labels: filters.ShowLabels = False,
    output: filters.Output = "table",
) -> None:
    """List clusters, newest first."""
    context = context_of(typer_context)
    asked = filters.asked(
        status=status, label=label, name=name, since=since, until=until, mine=mine, by=by,
        order=order,
    )  # fmt: skip
    found = context.client.clusters(at_most=limit, **asked)
    if context.json or output == "json":
        print_json({"clusters": found})
    elif output == "id":
        for cluster in found:
            out.print(cluster["name"], markup=False, soft_wrap=True)
    elif found:
        columns = ["cluster", "owner", "status", "made for", "nodes", "age"]
        rows = [_cluster_row(cluster, show_labels=show_labels) for cluster in found]
        more = ["labels"] if show_labels else []
        below = [*more, "made for", "owner", "age", "nodes"]
        print_fitting([*columns, *more], rows, below)
    elif any(asked.values()):
        out.print("No cluster is like that. All of them: trainyard cluster ls")
    else:
        out.print("No clusters. Make one: trainyard cluster create FILE")


def _cluster_row(cluster: Json, *, show_labels: bool) -> list[object]:
    return [
        escape(cluster["name"]),
        name_of(cluster.get("createdBy")),
        styled(cluster["status"]),
        escape(cluster.get("ownerRun") or "-"),
        nodes_of(groups_listed(cluster)) or "-",
        ago(cluster["createdAt"]),
        *([escape(labels_text(cluster.get("labels")))] if show_labels else []),
    ]

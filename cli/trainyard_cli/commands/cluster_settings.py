"""`trainyard cluster label`, `limits` and `keep`: what a cluster has beside its spec."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trainyard_sdk.spec_files import read_spec

from ..context import context_of
from ..screen.cluster_page import sharing_text
from ..screen.output import out, print_json
from ..screen.words import labels_text
from . import filters
from .cluster_waiting import ClusterName
from .people import Reason


def keep(typer_context: typer.Context, cluster: ClusterName, reason: Reason = None) -> None:
    """Keep a cluster that nobody uses: its idle time begins anew."""
    context = context_of(typer_context)
    document = context.client.keep_cluster(cluster, reason=reason)
    if context.json:
        print_json(document)
        return
    seconds = (document.get("spec") or {}).get("idleLimitSeconds")
    words = f" for another {seconds} s without a run" if seconds else ""
    out.print(f"{escape(document['name'])} is kept{words}", soft_wrap=True)


def label(
    typer_context: typer.Context, cluster: ClusterName, changes: filters.LabelChanges
) -> None:
    """Set labels of a cluster, or take them away; the others stay."""
    context = context_of(typer_context)
    document = context.client.label_cluster(cluster, filters.label_changes(changes))
    if context.json:
        print_json(document)
    else:
        labels = escape(labels_text(document.get("labels")))
        out.print(f"{escape(document['name'])}: {labels}", soft_wrap=True)


def limits(
    typer_context: typer.Context,
    cluster: ClusterName,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="fairBy and limits in YAML or JSON; - for standard input",
        ),
    ],
) -> None:
    """Set who has a turn when on a cluster that runs share, in place of what was there."""
    context = context_of(typer_context)
    document = context.client.share_fairly(cluster, read_spec(file))
    if context.json:
        print_json(document)
    else:
        out.print(f"{escape(document['name'])}: {sharing_text(document)}", soft_wrap=True)

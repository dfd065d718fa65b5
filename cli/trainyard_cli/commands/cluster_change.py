"""`trainyard cluster update`, `stop` and `start`: a cluster that is there is changed."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trainyard_sdk.client import Json
from trainyard_sdk.spec_files import read_spec

from ..context import Context, context_of
from ..problems import FAILED, InvalidInput
from ..screen.cluster_page import print_cluster
from ..screen.output import confirmed, err
from ..screen.plan_page import print_plan
from ..screen.waiting import Timeout
from .cluster_waiting import ClusterName, wait_for
from .options import Yes
from .people import Reason


def update(
    typer_context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="the ClusterSpec that its cluster is to have"),
    ],
    wait: Annotated[bool, typer.Option("--wait", "-w", help="until the change is over")] = False,
    timeout: Timeout = None,
    dryrun: Annotated[
        bool,
        typer.Option(
            "--dryrun", "--dry-run", help="show what it takes and what is refused, and do nothing"
        ),
    ] = False,
) -> None:
    """Give a cluster that is there another spec."""
    context, spec = context_of(typer_context), read_spec(file, "cluster")
    name = str(spec.get("name") or "")
    if not name:
        raise InvalidInput(
            "The spec names no cluster", f"name: is missing in {file}", "Give the cluster's name."
        )
    if dryrun:
        print_plan(context.client.update_cluster(name, spec, dryrun=True), as_json=context.json)
        return
    _follow_change(context, context.client.update_cluster(name, spec), wait, timeout)


def stop(
    typer_context: typer.Context,
    cluster: ClusterName,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="until it is stopped")] = False,
    timeout: Timeout = None,
    force: Annotated[
        bool, typer.Option("--force", help="also with people's jobs on it, which are ended")
    ] = False,
    reason: Reason = None,
    yes: Yes = False,
) -> None:
    """Stop a cluster's fleet: its workers end, its head node and its files stay."""
    context = context_of(typer_context)
    if force:
        question = f"Stop {cluster}, and end people's jobs on it?"
        confirmed(question, yes=yes, as_json=context.json)
    found = context.client.stop_cluster(cluster, force=force, reason=reason)
    _follow_change(context, found, wait, timeout)


def start(
    typer_context: typer.Context,
    cluster: ClusterName,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="until it is started")] = False,
    timeout: Timeout = None,
) -> None:
    """Start a cluster's fleet that was stopped."""
    context = context_of(typer_context)
    _follow_change(context, context.client.start_cluster(cluster), wait, timeout)


_CHANGE_FAILED = ("refused", "rolled-back", "failed")


def _follow_change(context: Context, cluster: Json, wait: bool, timeout: int | None) -> None:
    if wait:
        cluster = wait_for(context, cluster["name"], _change_is_over, timeout) or cluster
    print_cluster(cluster, as_json=context.json)
    change = cluster.get("change") or {}
    if change and not change.get("endedAt"):
        err.print(f"Follow it with: trainyard cluster show {escape(cluster['name'])}")
    if wait and change.get("state") in _CHANGE_FAILED:
        raise typer.Exit(FAILED)


def _change_is_over(found: Json | None) -> bool:
    if found is None or found["status"] in ("Failed", "Deleting", "Deleted"):
        return True
    change = found.get("change")
    return change is None or bool(change.get("endedAt"))

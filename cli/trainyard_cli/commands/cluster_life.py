"""`trainyard cluster create`, `show` and `delete`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trainyard_sdk.spec_files import read_spec

from ..context import context_of
from ..problems import FAILED
from ..screen.cluster_page import print_cluster
from ..screen.output import confirmed, err, out
from ..screen.plan_page import print_plan
from ..screen.waiting import Timeout
from .cluster_waiting import ClusterName, wait_for
from .options import Yes
from .people import Reason


def create(
    typer_context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="ClusterSpec in YAML or JSON; - for standard input"),
    ],
    wait: Annotated[bool, typer.Option("--wait", "-w", help="until it is ready")] = False,
    timeout: Timeout = None,
    dryrun: Annotated[
        bool, typer.Option("--dryrun", help="show exactly what would be created, and do nothing")
    ] = False,
) -> None:
    """Create a cluster that belongs to no run."""
    context, spec = context_of(typer_context), read_spec(file, "cluster")
    if dryrun:
        print_plan(context.client.plan_cluster(spec), as_json=context.json)
        return
    cluster = context.client.create_cluster(spec)
    if wait:
        cluster = (
            wait_for(
                context,
                cluster["name"],
                lambda found: found is None or found["status"] in ("Ready", "Failed", "Deleted"),
                timeout,
            )
            or cluster
        )
    print_cluster(cluster, as_json=context.json)
    if cluster["status"] in ("Failed", "Deleted"):
        raise typer.Exit(FAILED)


def show(typer_context: typer.Context, cluster: ClusterName) -> None:
    """Show a cluster."""
    context = context_of(typer_context)
    print_cluster(context.client.cluster(cluster), as_json=context.json)


def delete(
    typer_context: typer.Context,
    cluster: ClusterName,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="until it is gone")] = False,
    timeout: Timeout = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="also with people's jobs on it, and with what was not exported"
        ),
    ] = False,
    yes: Yes = False,
    reason: Reason = None,
) -> None:
    """Delete a cluster that nobody uses."""
    context = context_of(typer_context)
    confirmed(f"Delete cluster {cluster}?", yes=yes, as_json=context.json)
    document = context.client.delete_cluster(cluster, force=force, reason=reason)
    if wait:
        document = wait_for(
            context,
            cluster,
            lambda found: found is None or found["status"] in ("Deleted", "Failed"),
            timeout,
        ) or {
            **document,
            "status": "Deleted",
        }
    if context.json or document["status"] in ("Deleted", "Failed"):
        print_cluster(document, as_json=context.json)
    else:  # its status may still be what it was
        out.print(f"Deleting {escape(cluster)}.")
        err.print(f"Follow it with: trainyard cluster show {escape(cluster)}")
    if document["status"] == "Failed":
        raise typer.Exit(FAILED)

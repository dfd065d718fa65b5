"""`trainyard array ...`: many runs of one spec, submitted, looked at and cancelled as one."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trainyard_sdk.client import Json
from trainyard_sdk.spec_files import read_spec

from ..context import context_of
from ..screen.fitting import print_fitting
from ..screen.output import (
    ago,
    confirmed,
    err,
    out,
    print_fields,
    print_json,
    styled,
)
from .options import Dryrun, Key, Yes
from .people import Reason
from .plans import print_array_plan
from .submission import prepared

arrays = typer.Typer(no_args_is_help=True, help="Arrays: many runs of one spec.")

ArrayId = Annotated[str, typer.Argument(metavar="ARRAY", help="id of the array (arr-...)")]


@arrays.command()
def submit(
    typer_context: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="ArraySpec in YAML or JSON; - for standard input")
    ],
    dryrun: Dryrun = False,
    idempotency_key: Key = None,
) -> None:
    """Submit an array. A directory that run.job.workdir names is uploaded first, once.

    With --dryrun nothing is done: it says members, waves, prices and what would be refused.
    """
    from trainyard_sdk.upload.workdir import anchored

    context, spec = context_of(typer_context), read_spec(file, "array")
    run, upload = prepared(context, anchored(spec["run"], file), dryrun=dryrun)
    if dryrun:
        print_array_plan(context, context.client.plan_array({**spec, "run": run}), upload)
        return
    made = context.client.submit_array({**spec, "run": run}, idempotency_key=idempotency_key)
    if context.json:
        print_json(made)
        return
    out.print(made["id"], soft_wrap=True)
    err.print(f"{made['reason']} Look at it with: trainyard array show {made['id']}")


@arrays.command("ls")
def list_arrays(
    typer_context: typer.Context,
    limit: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=1000, help="newest so many")
    ] = 50,
) -> None:
    """List arrays, newest first."""
    context = context_of(typer_context)
    found = context.client.arrays(at_most=limit)
    if context.json:
        print_json({"arrays": found})
        return
    rows = [
        (
            one["id"],
            escape(one["name"]),
            styled(one["status"]),
            f"{one['succeeded']}/{one['total']}",
            one["active"],
            ago(one["createdAt"]),
            escape(one["reason"]),
        )
        for one in found
    ]
    if rows:
        heads = ["array", "name", "status", "succeeded", "active", "age", "reason"]
        print_fitting(heads, rows, ["reason", "age", "active", "succeeded", "name"])
    else:
        out.print("No arrays yet. Start one: trainyard array submit FILE")


@arrays.command()
def show(typer_context: typer.Context, array: ArrayId) -> None:
    """Show an array and its members, with their parameters and their runs."""
    context = context_of(typer_context)
    found, members = context.client.array(array), context.client.array_members(array)
    if context.json:
        print_json({**found, "members": members})
        return
    _print(found, members)


@arrays.command()
def cancel(
    typer_context: typer.Context, array: ArrayId, reason: Reason = None, yes: Yes = False
) -> None:
    """Cancel the active members of an array; no other one begins."""
    context = context_of(typer_context)
    confirmed(f"Cancel {array} and its active members?", yes=yes, as_json=context.json)
    found = context.client.cancel_array(array, reason=reason)
    if context.json:
        print_json(found)
        return
    out.print(f"{styled(found['status'])}: {escape(found['reason'])}")


def _print(found: Json, members: list[Json]) -> None:
    print_fields(
        {
            "array": found["id"],
            "name": escape(found["name"]),
            "status": styled(found["status"]),
            "reason": escape(found["reason"]),
            "cluster": escape(found["clusterName"]) or "one for each member",
            "at once": found["maxParallel"],
        }
    )
    rows = [
        (
            one["index"],
            escape(", ".join(f"{name}={value}" for name, value in one["parameters"].items())),
            one["runId"] or "-",
            styled(one["status"] or "not begun"),
            escape(one["reason"]),
        )
        for one in members
    ]
    heads = ["member", "parameters", "run", "status", "reason"]
    if rows:
        print_fitting(heads, rows, ["reason", "parameters"])

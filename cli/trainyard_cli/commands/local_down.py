"""`trainyard local down`, which asks before active runs are lost."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from trainyard_sdk.client import Client

from ..context import Context, context_of
from ..problems import CliError, Conflict
from ..screen.output import err, out, print_json
from ..screen.snapshot import TERMINAL
from .local_control import RECORDS_GONE, control_package, told

#: Of the newest so many, `down` looks for active ones.
ASKED_RUNS = 1000


def down(
    typer_context: typer.Context,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="also while runs are active; they are lost")
    ] = False,
) -> None:
    """Stop the local cloud and all that it started, and delete its runs, exports and checkpoints.

    It also works after the cloud was killed.
    """
    context, control = context_of(typer_context), control_package()
    there: dict[str, Any] = control.status(context.state_dir)
    if there["running"] and not yes:
        _ask(context)
    with told(control), err.status("Stopping the local cloud"):
        document: dict[str, Any] = control.down(context.state_dir)
    if context.json:
        print_json(document)
    else:
        killed = document["killed"]
        out.print(
            "The local cloud is down."
            + (f" {killed} process{'es' * (killed != 1)} had to be killed." if killed else "")
        )
        if not there["running"] and there.get("killed"):
            err.print(RECORDS_GONE)


def _ask(context: Context) -> None:
    """Ask the user before active runs are lost.

    A cloud that cannot say what it runs is taken down.
    """
    try:
        client = Client.from_state_dir(context.state_dir)
        active = [run for run in client.runs(at_most=ASKED_RUNS) if run["status"] not in TERMINAL]
    except CliError:
        return
    if not active:
        return
    named = ", ".join(f"{run['id']} ({run['status']})" for run in active[:3]) + (
        f" and {len(active) - 3} more" if len(active) > 3 else ""
    )
    what = (
        f"{len(active)} run{'s are' if len(active) > 1 else ' is'} active: {named}. "
        "Their checkpoints and exports go with the local cloud."
    )
    if context.json or not sys.stdin.isatty():
        raise Conflict("Runs are active", what, "Wait for them, cancel them, or say --yes")
    err.print(what)
    typer.confirm("Take it down?", abort=True, err=True)

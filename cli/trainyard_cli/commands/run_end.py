"""`trainyard run cancel` and `resume`."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard_sdk.client import Json

from ..context import Context, context_of
from ..problems import FAILED
from ..screen.output import confirmed
from ..screen.snapshot import TERMINAL
from ..screen.waiting import Timeout, Wait
from .meant import RunGiven, run_meant
from .options import Yes
from .people import Reason
from .run_follow import follow_run
from .run_waiting import print_accepted, run_state, run_waiting


def cancel(
    typer_context: typer.Context,
    run: RunGiven,
    wait: Wait = False,
    timeout: Timeout = None,
    reason: Reason = None,
    yes: Yes = False,
) -> None:
    """Cancel a run: stop the job, export what is whole, delete the run's own cluster."""
    context = context_of(typer_context)
    run = run_meant(context, run)
    confirmed(f"Cancel {run}?", yes=yes, as_json=context.json)
    document = context.client.cancel_run(run, reason=reason)
    if wait:
        document = _until_ended(context, run, timeout)
    print_accepted(context, document, "Cancelling")
    if wait and document["status"] == "Failed":
        raise typer.Exit(FAILED)


def resume(
    typer_context: typer.Context,
    run: RunGiven,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="follow it")] = False,
    filesystem: Annotated[
        str | None,
        typer.Option(
            metavar="DNS/MOUNT",
            help="if the cluster's own filesystem is lost: another one, such as "
            "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com/abcdefgh; what was synced "
            "(export.everySeconds) is brought there",
        ),
    ] = None,
    wait: Wait = False,
    timeout: Timeout = None,
    reason: Reason = None,
) -> None:
    """Resume a failed or cancelled run from its newest whole checkpoint.

    --wait waits for the end of the run, as --watch does, and shows no picture.
    """
    context = context_of(typer_context)
    run = run_meant(context, run)
    document = context.client.resume_run(run, filesystem=filesystem, reason=reason)
    if watch:
        follow_run(context, run)
        return
    if wait:
        document = _until_ended(context, run, timeout)
    print_accepted(context, document, "Resuming")
    if wait and document["status"] != "Succeeded":
        raise typer.Exit(FAILED)


def _until_ended(context: Context, run_id: str, timeout: int | None) -> Json:
    return run_waiting(run_id, timeout).until(
        lambda: context.client.run(run_id), lambda run: run["status"] in TERMINAL, run_state
    )

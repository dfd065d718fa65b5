"""`trainyard run export`: a run's results go to S3 now."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trainyard_sdk.client import Json

from ..context import Context, context_of
from ..problems import FAILED
from ..screen.output import bytes_text, counted, err, out, print_json
from ..screen.snapshot import TERMINAL
from ..screen.waiting import Timeout
from .meant import RunGiven, run_meant
from .people import Reason
from .run_waiting import print_accepted, run_waiting


def export(
    typer_context: typer.Context,
    run: RunGiven,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait", help="until the export has ended; its end is the exit status"
        ),
    ] = True,
    timeout: Timeout = None,
    reason: Reason = None,
) -> None:
    """Export checkpoints, the final model and the program's own output to S3 now."""
    context = context_of(typer_context)
    run = run_meant(context, run)
    before = (context.client.run(run).get("export") or {}).get("id")
    document = context.client.export_run(run, reason=reason)
    if not wait:
        print_accepted(context, document, "Exporting")
        return
    if document["status"] not in TERMINAL:  # without it there was nothing to do
        document = run_waiting(run, timeout).until(
            lambda: context.client.run(run), lambda now: _exported(now, before), _export_state
        )
    _print_export(context, document)


def _exported(run: Json, before: str | None) -> bool:
    """Whether an export that is newer than `before` has ended, for good."""
    found = run.get("export") or {}
    # The one at the end of a run is tried again when it fails.
    ended = found.get("state") == "verified" or (
        found.get("state") == "failed" and not found["final"]
    )
    return run["status"] in TERMINAL or bool(ended and found["id"] != before)


def _export_state(run: Json) -> str:
    return f"{run['status']}, its export {(run.get('export') or {}).get('state') or 'not begun'}"


def _print_export(context: Context, run: Json) -> None:
    found: Json = run.get("export") or {}
    verified = found.get("state") == "verified"
    if context.json:
        print_json(run)
    elif verified:
        below = run.get("objectsPrefix") or f"runs/{run['id']}"  # where older runs lie
        out.print(
            f"Exported and verified: {counted(found['objects'], 'object')}, "
            f"{bytes_text(found['bytes'])}, below {found.get('uri') or f'{below}/export/'}",
            soft_wrap=True,
        )
        err.print(f"Get it with: trainyard run download {run['id']}", soft_wrap=True)
        if found.get("leftBehind"):
            err.print(f"[yellow]warning[/] not exported: {escape(found['leftBehind'])}")
    else:
        reason = found["reason"] if found else f"the run is {run['status']}: {run['reason']}"
        err.print(
            (
                f"[red]The export failed[/]: {escape(reason)}\nNext: "
                f"ask again with trainyard run export {run['id']}"
            ),
            soft_wrap=True,
        )
    if not verified:
        raise typer.Exit(FAILED)

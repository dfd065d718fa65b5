"""`trainyard run watch`: a run followed until it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import typer
from rich.markup import escape

from trainyard_sdk.client import Json

from ..context import Context, context_of
from ..problems import DETACHED, FAILED
from ..screen import live
from ..screen.output import err, out, print_json
from .meant import RunGiven, run_meant


def watch(typer_context: typer.Context, run: RunGiven) -> None:
    """Follow a run until it ends. Ctrl-C detaches; the run goes on."""
    context = context_of(typer_context)
    follow_run(context, run_meant(context, run))


@contextlib.contextmanager
def detachable(run_id: str) -> Iterator[None]:
    """Ctrl-C leaves, and the run goes on."""
    try:
        yield
    except KeyboardInterrupt:
        err.print(
            f"\nDetached; run {run_id} goes on. Come back with: trainyard run watch {run_id}",
            soft_wrap=True,
        )
        raise typer.Exit(DETACHED) from None


def follow_run(context: Context, run_id: str) -> None:
    with detachable(run_id):
        # With --json there is no live picture: only the end is printed.
        run = (
            _quietly(context, run_id) if context.json else live.follow(context.client, run_id, out)
        )
    if context.json:
        print_json(run)
    elif run.get("problem"):
        err.print(
            f"[red]{escape(run['problem']['title'])}[/]: "
            f"{escape(run['problem']['detail'])}\nNext: {escape(run['problem']['nextStep'])}"
        )
    if not context.json and (run.get("export") or {}).get("state") == "verified":
        err.print(f"Get the results with: trainyard run download {run_id}", soft_wrap=True)
    if run["status"] != "Succeeded":
        raise typer.Exit(FAILED)


def _quietly(context: Context, run_id: str) -> Json:
    from rich.console import Console

    return live.follow(context.client, run_id, Console(quiet=True))

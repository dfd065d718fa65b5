"""`trainyard run show` and `events`: what a run is, and what became of it."""

from __future__ import annotations

import typer

from trainyard_sdk.client import Json

from ..context import Context, context_of
from ..problems import ApiProblem
from ..screen import live
from ..screen.output import out, print_json
from ..screen.run_page import print_run
from .meant import RunGiven, run_meant


def show(typer_context: typer.Context, run: RunGiven) -> None:
    """Show a run: status, cost, attempts, incidents, checkpoints, and where its results lie."""
    context = context_of(typer_context)
    run = run_meant(context, run)
    document = context.client.run(run)
    if context.json:
        print_json(document)
        return
    checkpoints = context.client.checkpoints(run)
    print_run(document, checkpoints, _cost_of(context, run))


def _cost_of(context: Context, run: str) -> Json | None:
    """None where the API has no answer: all else of the run is shown."""
    try:
        return context.client.run_cost(run)
    except ApiProblem:
        return None


def events(typer_context: typer.Context, run: RunGiven) -> None:
    """The timeline: facts, decisions and their reasons."""
    context = context_of(typer_context)
    run = run_meant(context, run)
    found = context.client.events(run)
    if context.json:
        print_json({"events": found})
    else:
        live.print_timeline(out, found)

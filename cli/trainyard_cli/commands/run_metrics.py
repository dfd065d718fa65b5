"""`trainyard run metrics`: the numbers that a program reports."""

from __future__ import annotations

from typing import Annotated

import typer

from ..context import context_of
from ..screen.output import out, print_json
from ..screen.run_page import print_metrics, print_names
from ..times import seconds
from .meant import RunGiven, run_meant

DAY_SECONDS = 86400


def metrics(
    typer_context: typer.Context,
    run: RunGiven,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="a number that the program reports, such as accuracy, not the loss"
        ),
    ] = None,
    names: Annotated[
        bool, typer.Option("--names", help="only list the names that there are, with their numbers")
    ] = False,
    since: Annotated[
        int | None,
        typer.Option(
            metavar="TIME",
            parser=seconds(3650 * 86400),
            help="only its last part, such as 2h; of an ended run before its end",
        ),
    ] = None,
) -> None:
    """Step and speed, and the loss as a curve, or another number that the program reports.

    Of the whole run; also long after it has ended and its cluster is gone.
    """
    context = context_of(typer_context)
    run = run_meant(context, run)
    back = DAY_SECONDS if since is None else min(since, 7 * DAY_SECONDS)
    found = context.client.metrics(run, since_seconds=back, name=name)
    if context.json:
        print_json(found)
    elif names:
        print_names(found)
    else:
        print_metrics(found, out.width, since)

"""`trainyard mcp`: runs, logs and costs for programs that speak the Model Context Protocol."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from trainyard_sdk.version import version

from ..context import context_of


def mcp(
    typer_context: typer.Context,
    allow_actions: Annotated[
        bool,
        typer.Option(
            "--allow-actions",
            help="also tools that submit, cancel and resume runs; each wants the run's name twice",
        ),
    ] = False,
) -> None:
    """Serve the Model Context Protocol on stdin and stdout, until stdin ends.

    A program such as an editor starts it. It reads only, unless --allow-actions.
    """
    # The classes of its tools are read by this command alone.
    from ..mcp.server import Server

    context = context_of(typer_context)
    server = Server(lambda: context.client, version(), acting=allow_actions)
    try:
        server.serve(sys.stdin.buffer, sys.stdout.buffer)
    except KeyboardInterrupt:
        return

"""`trainyard console`: the web page of runs and clusters, served to this machine alone."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from ..context import context_of
from ..screen.output import out


def console(
    typer_context: typer.Context,
    port: Annotated[
        int,
        typer.Option(metavar="PORT", min=0, max=65535, help="of 127.0.0.1; 0: any that is free"),
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="open the link in the browser")
    ] = True,
) -> None:
    """Serve the web console on 127.0.0.1 until Ctrl-C.

    It signs what the page asks for with your AWS credentials, so that you may do there what you may
    do here. The link is good for one browser and one time.
    """
    # The server is read by this command alone.
    from ..console.server import Console

    context = context_of(typer_context)
    with Console(context.client.connection, port) as server:
        if context.json:
            typer.echo(f'{{"link": "{server.link}"}}')
        else:
            out.print(f"The console of {server.connection.api_url}; Ctrl-C ends it.")
            typer.echo(server.link)
        if browser:
            webbrowser.open(server.link)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            return

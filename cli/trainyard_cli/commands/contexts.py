"""`trainyard context`: which of several deployments the commands talk to."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trainyard_sdk import contexts as kept
from trainyard_sdk.connection import checked_endpoint
from trainyard_sdk.contexts import LOCAL, Context

from ..context import context_of
from ..screen.output import err, out, print_json, print_table, table

contexts = typer.Typer(
    no_args_is_help=True,
    help="Contexts: named deployments, with the AWS profile to sign with. No secret is kept.",
)
Name = Annotated[str, typer.Argument(help="name of the context, such as prod")]


@contexts.command("ls")
def list_contexts(typer_context: typer.Context) -> None:
    """List the contexts; the one in use is marked."""
    found = kept.read()
    current = found.current or LOCAL
    known = {LOCAL: None, **dict(sorted(found.known.items()))}
    if context_of(typer_context).json:
        listed = [{"name": name, **(one.as_json() if one else {})} for name, one in known.items()]
        print_json({"current": current, "contexts": listed})
        return
    rows = [
        (
            "*" if name == current else "",
            escape(name),
            escape(one.endpoint) if one else "the local cloud",
            escape((one and one.profile) or "-"),
        )
        for name, one in known.items()
    ]
    print_table(table(["", "context", "endpoint", "profile"], rows))


@contexts.command()
def add(
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="ApiUrl of the stack")],
    profile: Annotated[
        str | None, typer.Option(help="of ~/.aws/config; default: as AWS's tools choose")
    ] = None,
    region: Annotated[
        str | None, typer.Option(help="needed only where the endpoint does not name it")
    ] = None,
    use: Annotated[bool, typer.Option("--use", help="and use it from now on")] = False,
    force: Annotated[bool, typer.Option("--force", help="replace one of this name")] = False,
) -> None:
    """Add a context; the first one is also used from now on."""
    made = Context(checked_endpoint(url), profile, region)
    with kept.changing() as held:
        first = not held[0].known
        held[0] = held[0].added(name, made, force=force)
        if use or first:
            held[0] = held[0].used(name)
        used = held[0].current == name
    out.print(f"Added {escape(name)}{', and it is in use' if used else ''}.")
    if not used:
        err.print(f"Use it with: trainyard context use {escape(name)}", soft_wrap=True)


@contexts.command()
def use(name: Name) -> None:
    """Use this context from now on; 'local' is the local cloud."""
    with kept.changing() as held:
        held[0] = held[0].used(name)
    out.print(f"In use: {escape(name)}.")


@contexts.command()
def rm(name: Name) -> None:
    """Forget a context. Nothing of the deployment changes."""
    with kept.changing() as held:
        was_in_use = held[0].current == name
        held[0] = held[0].without(name)
    out.print(f"Removed {escape(name)}{'; in use: local' if was_in_use else ''}.")

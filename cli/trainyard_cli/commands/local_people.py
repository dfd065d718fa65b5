"""`trainyard local user ...`: several people on one local cloud, as a team has them on AWS."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trainyard_sdk.connection import LOCAL_USER

from ..context import context_of
from ..screen.output import err, out, print_json, print_table, table
from .local_control import loaded, said

users = typer.Typer(
    no_args_is_help=True, help="People of the local cloud: users of its IAM, who sign their calls."
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="of the user, such as alice")]


@users.command()
def add(typer_context: typer.Context, name: Name) -> None:
    """Make a user who may call the API, or give one a new key."""
    context, people = context_of(typer_context), loaded("people")
    with said():
        made = people.add(context.state_dir, name)
    if context.json:
        print_json(made)
        return
    out.print(f"{escape(made['name'])} is {escape(made['arn'])}.", soft_wrap=True)
    err.print(f"Call the API as this user: export {LOCAL_USER}={escape(name)}", soft_wrap=True)


@users.command("rm")
def remove(typer_context: typer.Context, name: Name) -> None:
    """Let a user leave: their key signs nothing any more."""
    context, people = context_of(typer_context), loaded("people")
    with said():
        people.remove(context.state_dir, name)
    if context.json:
        print_json({"removed": name})
    else:
        out.print(f"{escape(name)} left. What was theirs stays; an admin can give it to others.")


@users.command("ls")
def listing(typer_context: typer.Context) -> None:
    """List the users."""
    context, people = context_of(typer_context), loaded("people")
    with said():
        found = people.listed(context.state_dir)
    if context.json:
        print_json({"users": found})
    elif found:
        print_table(table(["user", "ARN"], [(escape(u["name"]), escape(u["arn"])) for u in found]))
    else:
        out.print("No users but the local cloud's owner. Make one: trainyard local user add NAME")

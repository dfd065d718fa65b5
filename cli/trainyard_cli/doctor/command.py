"""`trainyard doctor`: looks at an account and says what will fail, before it costs anything."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape

from trainyard_sdk.connection import usable_credentials
from trainyard_sdk.spec_files import read_spec
from trainyard_sdk.terminal_text import plain

from ..context import context_of
from ..problems import FAILED, InvalidInput
from ..screen.output import err, out, print_json
from .account import Account
from .examination import examine_all, names
from .findings import Finding

STYLES = {"failure": "red bold", "warning": "yellow", "unknown": "magenta"}


def doctor(
    typer_context: typer.Context,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[SPEC]", help="a run's or a cluster's spec; without one the account in general"
        ),
    ] = None,
    stack: Annotated[str, typer.Option(help="name of Trainyard's stack")] = "trainyard",
    region: Annotated[
        str | None, typer.Option(envvar="AWS_REGION", help="default: that of the AWS profile")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(envvar="AWS_PROFILE", help="of ~/.aws/config")
    ] = None,
) -> None:
    """Look at an AWS account, reading only, and say what will fail there and how to mend it."""
    from .scope import Scope  # imported here: it brings pydantic, which no other command waits for

    context = context_of(typer_context)
    scopes = Scope.every(read_spec(file) if file else None)
    account = _account(stack, region, profile)
    found = examine_all(
        account,
        scopes,
        tell=lambda name: (
            None if context.json else err.print(f"[dim]looking at {name.replace('_', ' ')}[/]")
        ),
    )
    if context.json:
        print_json(_document(account, found))
    else:
        _print(account, found)
    if any(one.severity != "warning" for one in found):
        raise typer.Exit(FAILED)


def _document(account: Account, found: list[Finding]) -> dict[str, Any]:
    return {
        "region": account.region,
        "stack": account.stack_name,
        "checks": names(),
        "findings": [one.as_json() for one in found],
    }


def _account(stack: str, region: str | None, profile: str | None) -> Account:
    from botocore.session import Session

    with usable_credentials():
        session: Any = Session(profile=profile)
        chosen = region or session.get_config_variable("region")
    if not chosen:
        raise InvalidInput(
            "No region",
            "neither --region, AWS_REGION nor the profile names one",
            "Give --region, such as --region us-west-2",
        )
    return Account(session, chosen, stack)


def _print(account: Account, found: list[Finding]) -> None:
    for one in found:
        out.print(
            (
                f"[{STYLES[one.severity]}]{one.severity}[/]  [bold]{_shown(one.subject)}[/]: "
                f"{_shown(one.problem)}"
            ),
            soft_wrap=True,
        )
        out.print(f"         {_shown(one.remedy)}", soft_wrap=True)
    if not found:
        out.print(
            f"Nothing found: {len(names())} checks of {account.region}, stack "
            f"{escape(account.stack_name)}."
        )


def _shown(text: str) -> str:
    return escape(plain(text))

"""`trainyard whoami` and `trainyard audit`, and how things come to be others', too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape

from ..context import context_of
from ..screen.fitting import print_fitting
from ..screen.output import (
    ago,
    confirmed,
    out,
    print_fields,
    print_json,
    styled,
)
from ..screen.words import name_of
from ..times import seconds
from .meant import run_meant

Json = dict[str, Any]
Kind = Literal["run", "cluster", "filesystem", "array", "schedule"]
#: As far back as a stack may keep its list.
_LONGEST_SECONDS = 3650 * 86400
_AUDIT = ("ago", "who", "what", "of", "outcome", "from", "why")
Thing = Annotated[
    str, typer.Argument(metavar="NAME", help="its name, or the id of a run or an array")
]
Reason = Annotated[str | None, typer.Option(help="why; the timeline or the audit list keeps it")]


def whoami(typer_context: typer.Context) -> None:
    """Who you are for this Trainyard: the signer of your calls, and your role."""
    context = context_of(typer_context)
    found = context.client.whoami()
    if context.json:
        print_json(found)
        return
    person, role = found["person"], found.get("role")
    everybody = " (as is everybody: the stack's parameter Admins is *)"
    print_fields(
        {
            "name": escape(person["name"]),
            "ARN": escape(person["arn"]),
            "kind": escape(person["kind"]),
            "role": f"{role or 'none: every other call is refused'}"
            f"{everybody if found.get('everybodyIsAdmin') else ''}",
        }
    )


def audit(
    typer_context: typer.Context,
    since: Annotated[
        str, typer.Option(parser=seconds(_LONGEST_SECONDS), metavar="TIME", help="how far back")
    ] = "7d",
    who: Annotated[
        str | None, typer.Option(help="name or ARN of a person, or 'trainyard' for itself")
    ] = None,
    what: Annotated[
        str | None, typer.Option(help="such as run.cancel, or all of a kind: run")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="kind/name, such as cluster/shared-cpu")
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=10_000, help="newest so many")
    ] = 50,
) -> None:
    """Who changed what, when, from where and why; newest first."""
    context = context_of(typer_context)
    first = datetime.now(timezone.utc) - timedelta(seconds=float(since))
    found = context.client.audit(
        since=first.isoformat(timespec="seconds"),
        who=who,
        what=what,
        subject=subject,
        at_most=limit,
    )
    if context.json:
        print_json({"entries": found})
        return
    if found:
        print_fitting(_AUDIT, list(map(_audit_row, found)), ["why", "from", "who", "outcome"])
    else:
        out.print("Nothing was changed in that time.")


def _audit_row(one: Json) -> tuple[str, ...]:
    return (
        ago(one["at"]),
        name_of(one["who"]) if one["who"] else "Trainyard",
        one["what"],
        escape(one["subject"]),
        styled(one["outcome"]),
        escape(one.get("sourceIp") or "-"),
        escape(one["reason"] or one["detail"] or ""),
    )


def add_share(group: typer.Typer, kind: Kind) -> None:
    """`share` and `transfer` of this kind of thing."""

    def share(
        typer_context: typer.Context,
        thing: Thing,
        with_: Annotated[
            list[str] | None,
            typer.Option(
                "--with", metavar="ARN", help="of a user, a role or a session; * is any text"
            ),
        ] = None,
        nobody: Annotated[bool, typer.Option("--nobody", help="only the owner again")] = False,
        reason: Reason = None,
    ) -> None:
        if bool(with_) == nobody:
            raise typer.BadParameter("give --with ARN (repeatable), or --nobody")
        context = context_of(typer_context)
        thing = run_meant(context, thing) if kind == "run" else thing
        found = context.client.share(kind, thing, list(with_ or []), reason=reason)
        _print(context.json, found, f"Shared with {', '.join(with_ or ['nobody'])}.")

    def transfer(
        typer_context: typer.Context,
        thing: Thing,
        to: Annotated[
            str | None, typer.Option(metavar="ARN", help="the new owner; default: you yourself")
        ] = None,
        reason: Reason = None,
        yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
    ) -> None:
        context = context_of(typer_context)
        thing = run_meant(context, thing) if kind == "run" else thing
        question = f"Give {kind} {thing} to {to or 'yourself'}?"
        confirmed(question, yes=yes, as_json=context.json)
        found = context.client.transfer(kind, thing, to, reason=reason)
        _print(context.json, found, f"It belongs to {(found.get('createdBy') or {}).get('arn')}.")

    _add(group, "share", share, f"Let others change a {kind}, too; it replaces who it was.")
    _add(group, "transfer", transfer, f"Give a {kind} to another owner, or take it as an admin.")


def _add(group: typer.Typer, name: str, does: Callable[..., None], words: str) -> None:
    group.command(name, help=words)(does)


def _print(as_json: bool, document: Json, words: str) -> None:
    if as_json:
        print_json(document)
    else:
        out.print(escape(words), soft_wrap=True)

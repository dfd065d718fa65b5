"""`trainyard run logs`: what the ranks of a job printed."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from rich.markup import escape

from trainyard_sdk.following import Which

from ..context import context_of
from ..screen import live
from ..screen.output import err, out, print_json
from ..times import seconds
from .meant import RunGiven, run_meant
from .run_follow import detachable

Follow = Annotated[bool, typer.Option("--follow", "-f", help="go on until the run ends")]
Lines = Annotated[int, typer.Option("--lines", "-n", metavar="NUMBER", min=1, max=1000)]
Kind = Annotated[
    Literal["job", "lifecycle"],
    typer.Option(help="the job's log, or the cluster's lifecycle scripts'"),
]
Attempt = Annotated[int | None, typer.Option(metavar="NUMBER", min=1, help="default: the newest")]
Grep = Annotated[
    str, typer.Option("--grep", metavar="TEXT", help="search all of the log for lines with it")
]
PrintedSince = Annotated[
    int | None,
    typer.Option(
        metavar="TIME",
        parser=seconds(8_640_000),
        help="only what was printed since then, such as 10m; of an ended attempt before its end",
    ),
]
Rank = Annotated[
    int | None, typer.Option(metavar="NUMBER", min=0, help="only what this rank printed")
]
OfNode = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="only what the ranks of this node printed, each below a heading"
    ),
]


def logs(
    typer_context: typer.Context,
    run: RunGiven,
    follow: Follow = False,
    lines: Lines = 100,
    kind: Kind = "job",
    attempt: Attempt = None,
    text: Grep = "",
    since: PrintedSince = None,
    rank: Rank = None,
    node: OfNode = None,
) -> None:
    """The tail of the job's log, in which all ranks of all nodes write, or of one rank's own."""
    context = context_of(typer_context)
    if rank is not None and node is not None:
        raise typer.BadParameter("goes not with --rank, which is on one node", param_hint="--node")
    run = run_meant(context, run)
    which = Which(lines, kind, attempt, text, since, rank, node)
    if follow and not context.json:
        with detachable(run):
            live.follow_log(context.client, run, _write_line, which)
        return
    log = context.client.logs(
        run,
        attempt=attempt,
        lines=lines,
        kind=kind,
        contains=text,
        since_seconds=since,
        rank=rank,
        node=node,
    )
    if context.json:
        print_json(log)
    elif log["text"]:
        _write_line(log["text"].rstrip("\n"))
    else:
        err.print(_nothing(run, which))


def _nothing(run: str, which: Which) -> str:
    """Why there may be no line, as rich markup."""
    name = f"{which.kind} log" if which.rank is None else f"log of rank {which.rank}"
    name = name if which.node is None else f"logs of node {escape(which.node)}"
    if which.contains:
        return f"No line of the {name} has '{escape(which.contains)}' in it."
    if which.since_seconds:
        return f"Nothing was printed in {which.since_seconds} seconds, or there is no log."
    attempt = "" if which.attempt is None else f" of attempt {which.attempt}"
    elsewhere = (
        f" What the nodes said when they were made: trainyard run logs --kind lifecycle {run}"
        if which.kind == "job"
        else ""
    )
    return f"Nothing is in the {name}{attempt}, or there is none.{elsewhere}"


def _write_line(text: str) -> None:
    out.print(text, markup=False, soft_wrap=True)

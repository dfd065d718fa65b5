"""`trainyard run outputs` and `trainyard run download`: what a run left, and how to get it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from trainyard_sdk.terminal_text import plain

from ..context import Context, context_of
from ..problems import CONFLICT, DETACHED, NOT_FOUND
from ..screen.output import bytes_text, counted, date, err, out, print_json
from ..screen.progress import bar
from .meant import RunGiven, run_meant

if TYPE_CHECKING:
    from trainyard_sdk.downloads import Result

Pattern = Annotated[
    str | None,
    typer.Argument(help="only these: a directory such as final, or a pattern such as '*.pt'"),
]


def outputs(typer_context: typer.Context, run: RunGiven, pattern: Pattern = None) -> None:
    """List what the run's verified export holds: size, SHA-256, name.

    Of a run that still trains, or whose cluster was lost: what was copied by then.
    """
    from trainyard_sdk.downloads import selected

    context = context_of(typer_context)
    run = run_meant(context, run)
    shown, size, uri, synced, at = [], 0, "", False, None
    for page in context.client.outputs(run):
        uri = page["uri"]
        if page.get("source") == "sync":
            synced, at = True, page.get("syncedAt") or at
        for found in page["outputs"]:
            if not selected(found["key"], pattern):
                continue
            size += found["bytes"]
            shown.append(found)
            if not context.json:
                line = f"{bytes_text(found['bytes']):>10}  {found['sha256']}  {found['key']}"
                out.print(line, markup=False, soft_wrap=True)
    if context.json:
        print_json(
            {"uri": uri, "outputs": shown, "source": "sync" if synced else "export"}
            | ({"syncedAt": at} if synced else {})
        )
        return
    if synced:
        _tell_sync(at)
    err.print(
        f"{counted(len(shown), 'object')}, {bytes_text(size)}, below {escape(uri)}", soft_wrap=True
    )
    if shown:
        err.print(f"Get them with: trainyard run download {escape(run)}", soft_wrap=True)


def _tell_sync(at: str | None) -> None:
    err.print(
        f"Synced{f' {date(at)}' if at else ''}, while the run trained: not the verified export, "
        "and what came later is not in it.",
        soft_wrap=True,
    )


def download(
    typer_context: typer.Context,
    run: RunGiven,
    pattern: Pattern = None,
    to: Annotated[Path | None, typer.Option(help="directory; default: one of the run's id")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="also over files that are there and differ")
    ] = False,
) -> None:
    """Download what the run's verified export holds, or what was synced before there is one.

    Each file's SHA-256 is checked. A pattern brings only what it names. Without one all comes, also
    the agent's copies of checkpoints (below watched/), which may be as large as all the rest;
    'working' brings what the program left in its working directory.

    Again after an interruption it goes on where it was. A file that differs is never overwritten
    without --force.
    """
    from trainyard_sdk import downloads

    context = context_of(typer_context)
    run = run_meant(context, run)
    place = to or Path(run)
    if to is None:
        _make(place)
    try:
        with bar("Downloading", quiet=context.json) as told:
            found = downloads.download(
                context.client, run, pattern=pattern, to=place, force=force, told=told
            )
    except KeyboardInterrupt:
        err.print("\nStopped. The same command goes on where it was.")
        raise typer.Exit(DETACHED) from None
    _tell(context, run, found, place, pattern)


def _make(place: Path) -> None:
    """A directory of our own choice stays out of what is committed or uploaded from around it."""
    if not place.exists():
        place.mkdir()
        (place / ".gitignore").write_text("*\n")


def _tell(context: Context, run: str, found: Result, place: Path, pattern: str | None) -> None:
    if context.json:
        print_json(
            {
                "directory": str(place),
                "downloaded": found.fetched,
                "thereAlready": found.there,
                "kept": found.kept,
                "bytes": found.bytes,
                "source": "sync" if found.synced else "export",
            }
        )
    else:
        if found.synced:
            _tell_sync(found.synced_at)
        already = f"; {counted(len(found.there), 'file')} there already" if found.there else ""
        out.print(
            f"{counted(len(found.fetched), 'file')}, {bytes_text(found.bytes)}, "
            f"to {escape(str(place))}{already}",
            soft_wrap=True,
        )
        if found.watched_bytes:
            err.print(
                f"{bytes_text(found.watched_bytes)} of it are the agent's copies of checkpoints, "
                "below watched/. A pattern leaves them out: "
                f"trainyard run download {escape(run)} working",
                soft_wrap=True,
            )
        for key in found.kept[:20]:
            err.print(
                f"[yellow]kept[/] {escape(plain(key))}: another file is there; --force replaces it",
                soft_wrap=True,
            )
    if found.kept:
        raise typer.Exit(CONFLICT)
    if pattern is not None and not (found.fetched or found.there):
        err.print(f"Nothing matches '{escape(plain(pattern))}'")
        raise typer.Exit(NOT_FOUND)

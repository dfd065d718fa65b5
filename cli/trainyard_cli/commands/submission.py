"""From a spec with a directory to one that the API takes: its directory goes up first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import typer
from rich.markup import escape

from trainyard_sdk.client import Json
from trainyard_sdk.terminal_text import plain

from ..context import Context
from ..problems import DETACHED
from ..screen.output import bytes_text, counted, err
from ..screen.progress import bar


def prepared(
    context: Context, spec: Mapping[str, Any], *, dryrun: bool
) -> tuple[dict[str, Any], Json | None]:
    """The spec with the id of the upload, and what went up; with `dryrun` nothing is sent.

    Raises InvalidInput and what the client raises.
    """
    from trainyard_sdk import submitting
    from trainyard_sdk.upload.workdir import old_checkpoints

    try:
        done = submitting.prepared(
            context.client, spec, dryrun=dryrun, shown=partial(bar, quiet=context.json)
        )
    except KeyboardInterrupt:
        err.print(
            "\nStopped; no run was submitted. What is uploaded stays there: "
            "the same command sends only the rest."
        )
        raise typer.Exit(DETACHED) from None
    packed = done.packed
    if packed is None:
        return done.spec, None
    found = packed.scan
    upload = {
        "id": packed.id,
        "files": len(found.files),
        "bytes": found.bytes,
        "packs": len(packed.tree.packs),
        "sentPacks": done.sent,
        "skipped": found.skipped,
        "oldCheckpoints": old_checkpoints(spec, packed),
        "largest": [{"path": path, "bytes": size} for path, size in found.largest()],
    }
    if not context.json:
        _tell(upload, str(found.root), dryrun=dryrun)
    return done.spec, upload


def _tell(upload: Json, root: str, *, dryrun: bool) -> None:
    what = f"{counted(upload['files'], 'file')}, {bytes_text(upload['bytes'])}"
    packs = counted(upload["packs"], "pack")
    went = "Would upload" if dryrun else "Uploaded"
    sent = f"in {packs}" if dryrun else f"{counted(upload['sentPacks'], 'new part')} sent"
    err.print(f"{went} {escape(plain(root))}: {what}, {sent}", soft_wrap=True)
    if dryrun and upload["largest"]:
        largest = [f"{plain(one['path'])} {bytes_text(one['bytes'])}" for one in upload["largest"]]
        err.print(f"Largest: {escape(', '.join(largest))}", soft_wrap=True)
    if old := upload["oldCheckpoints"]:
        names = ", ".join(plain(path) for path in old[:3]) + (" and more" if len(old) > 3 else "")
        err.print(
            f"[yellow]warning[/] {escape(names)} fits checkpoint.watch and goes along, so the run "
            "begins with it; name it in .trainyardignore if it should begin anew",
            soft_wrap=True,
        )
    for path in upload["skipped"][:5]:
        err.print(
            f"[yellow]warning[/] {escape(plain(path))} is no file (a socket, FIFO or device) and "
            "stays here",
            soft_wrap=True,
        )


def print_differences(found: Iterable[tuple[str, Any, Any]]) -> None:
    """What another spec asks for instead, one field a line."""
    lines = [f"{plain(path)}: {_shown(before)} -> {_shown(after)}" for path, before, after in found]
    for line in lines or ["The spec is the same."]:
        err.print(line, markup=False, soft_wrap=True)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = plain(written).replace("\n", " ")
    return text if len(text) <= 60 else f"{text[:57]}..."

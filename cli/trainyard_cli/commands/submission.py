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
from ..problems import DETACHED, ApiProblem, InvalidInput
from ..screen.output import bytes_text, counted, err
from ..screen.progress import bar


def prepared(
    context: Context, spec: Mapping[str, Any], *, dryrun: bool
) -> tuple[dict[str, Any], Json | None]:
    """The spec with the id of the upload, and what went up; with `dryrun` nothing is sent.

    Raises InvalidInput and what the client raises.
    """
    from trainyard_sdk.upload.workdir import (
        brought_up,
        old_checkpoints,
        packed_workdir,
        with_workdir,
    )

    _check_image(context, spec)
    try:
        shown = partial(bar, quiet=context.json)
        packed = packed_workdir(spec, shown=shown)
        sent = 0
        if packed is not None and not dryrun:
            _check(context, with_workdir(spec, packed.id))
            packed, sent = brought_up(context.client, spec, packed, shown=shown)
    except KeyboardInterrupt:
        err.print(
            "\nStopped; no run was submitted. What is uploaded stays there: "
            "the same command sends only the rest."
        )
        raise typer.Exit(DETACHED) from None
    if packed is None:
        return dict(spec), None
    found = packed.scan
    upload = {
        "id": packed.id,
        "files": len(found.files),
        "bytes": found.bytes,
        "packs": len(packed.tree.packs),
        "sentPacks": sent,
        "skipped": found.skipped,
        "oldCheckpoints": old_checkpoints(spec, packed),
        "largest": [{"path": path, "bytes": size} for path, size in found.largest()],
    }
    if not context.json:
        _tell(upload, str(found.root), dryrun=dryrun)
    return with_workdir(spec, packed.id), upload


def _check_image(context: Context, spec: Mapping[str, Any]) -> None:
    """No cluster of the local cloud could ever run it, so nothing need go up to learn that."""
    job = spec.get("job")
    if isinstance(job, dict) and job.get("image") and context.client.connection.local is not None:
        raise InvalidInput(
            "The local cloud runs no containers",
            f"job.image: {job['image']}",
            "Leave it out here with --set job.image=null; the nodes' own Python then runs the "
            "program, with the packages of job.pythonEnvironment",
        )


def _check(context: Context, spec: Mapping[str, Any]) -> None:
    """What is wrong with the rest of the spec is known before hours of uploading."""
    try:
        if context.client.upload(spec["job"]["workdir"])["state"] == "Complete":
            return
    except ApiProblem as problem:
        if problem.status != 404:
            raise
    try:
        context.client.plan_run(spec)
    except ApiProblem as problem:
        if problem.code != "upload-incomplete":  # of a stack of an older version
            raise


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

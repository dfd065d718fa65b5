"""`trainyard filesystem ...`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer
from rich.markup import escape

from trainyard_sdk.client import Json
from trainyard_sdk.spec_files import read_spec

from ..context import Context, context_of
from ..problems import FAILED
from ..screen.fitting import print_fitting
from ..screen.output import (
    ago,
    bytes_text,
    confirmed,
    err,
    out,
    print_fields,
    print_json,
    styled,
)
from ..screen.waiting import Timeout, Waiting
from .options import Yes
from .people import Reason

filesystems = typer.Typer(
    no_args_is_help=True, help="Filesystems that clusters share and that outlive them."
)

POLL_SECONDS = 2.0
Name = Annotated[str, typer.Argument(metavar="FILESYSTEM", help="name of the filesystem")]


@filesystems.command()
def create(
    typer_context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="FilesystemSpec in YAML or JSON; - for standard input"),
    ],
    wait: Annotated[bool, typer.Option("--wait", "-w", help="until it is available")] = False,
    timeout: Timeout = None,
    dryrun: Annotated[
        bool, typer.Option("--dryrun", help="show exactly what would be asked, and do nothing")
    ] = False,
) -> None:
    """Create a filesystem."""
    context, spec = context_of(typer_context), read_spec(file, "filesystem")
    if dryrun:
        _print_plan(context, context.client.plan_filesystem(spec))
        return
    made = context.client.create_filesystem(spec)
    if wait:
        ended = ("Available", "Failed", "Deleted")
        made = _wait(context, made["name"], lambda found: found["status"] in ended, timeout)
    _print(context, made)
    if made["status"] in ("Failed", "Deleted"):
        raise typer.Exit(FAILED)


@filesystems.command("ls")
def listing(typer_context: typer.Context) -> None:
    """List filesystems."""
    context = context_of(typer_context)
    found = context.client.filesystems()
    if context.json:
        print_json({"filesystems": found})
        return
    rows = [
        (
            escape(one["name"]),
            styled(one["status"]),
            f"{one['spec']['storageGib']} GiB",
            escape(one.get("zone") or "-"),
            _when(one.get("verifiedExport")),
            ago(one["createdAt"]),
        )
        for one in found
    ]
    if rows:
        heads = ["filesystem", "status", "size", "zone", "exported", "age"]
        print_fitting(heads, rows, ["age", "zone", "exported", "size"])
    else:
        out.print("No filesystems. Make one: trainyard filesystem create FILE")


def _when(export: Json | None) -> str:
    return f"{ago(export['endedAt'])} ago" if export and export.get("endedAt") else "-"


@filesystems.command()
def show(typer_context: typer.Context, filesystem: Name) -> None:
    """Show a filesystem: who uses it, its newest export, and what happened."""
    context = context_of(typer_context)
    _print(context, context.client.filesystem(filesystem))


@filesystems.command()
def export(
    typer_context: typer.Context,
    filesystem: Name,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="until it is verified")] = False,
    timeout: Timeout = None,
) -> None:
    """Export what changed to its repository."""
    context = context_of(typer_context)
    found = context.client.export_filesystem(filesystem)
    if wait:
        over = ("verified", "failed")
        found = _wait(
            context,
            filesystem,
            lambda now: (now.get("export") or {}).get("state") in over,
            timeout,
        )
    _print(context, found)
    if (found.get("export") or {}).get("state") == "failed":
        raise typer.Exit(FAILED)


@filesystems.command()
def delete(
    typer_context: typer.Context,
    filesystem: Name,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="until it is gone")] = False,
    timeout: Timeout = None,
    discard: Annotated[
        str | None,
        typer.Option(
            "--discard", metavar="REASON", help="give up what it holds, without an export"
        ),
    ] = None,
    reason: Reason = None,
    yes: Yes = False,
) -> None:
    """Delete a filesystem that nobody uses; what it holds is exported first."""
    context = context_of(typer_context)
    what = "and ALL that it holds" if discard is not None else "once what it holds is exported"
    confirmed(f"Delete filesystem {filesystem}, {what}?", yes=yes, as_json=context.json)
    found = context.client.delete_filesystem(filesystem, discard=discard, reason=reason)
    if wait:
        going = ("Archiving", "Deleting")
        found = _wait(context, filesystem, lambda now: now["status"] not in going, timeout)
    _print(context, found)
    if wait and found["status"] != "Deleted":
        raise typer.Exit(FAILED)


def _wait(context: Context, name: str, done: Callable[[Json], bool], timeout: int | None) -> Json:
    """Poll the filesystem until it is done."""
    back = f"trainyard filesystem show {name}"
    waiting = Waiting(f"filesystem {name}", back, timeout, poll_seconds=POLL_SECONDS)
    return waiting.until(
        lambda: context.client.filesystem(name),
        done,
        lambda found: str(found.get("waitsFor") or found["status"]),
    )


def _print(context: Context, found: Json) -> None:
    if context.json:
        print_json(found)
        return
    problem, used = found.get("problem"), found.get("usedBytes")
    print_fields(
        {
            "filesystem": escape(found["name"]),
            "status": styled(found["status"]),
            "size": f"{found['spec']['storageGib']} GiB {found['spec'].get('deployment', '')}",
            "used": bytes_text(used) if used is not None else None,
            "repository": escape((found["spec"].get("repository") or {}).get("source", "")) or None,
            "zone": escape(found.get("zone") or "") or None,
            "dns name": escape(found.get("dnsName") or "") or None,
            "mount name": escape(found.get("mountName") or "") or None,
            "clusters": escape(", ".join(found.get("clusters") or [])) or None,
            "runs": ", ".join(found.get("runs") or []) or None,
            "export": _export(found.get("export")),
            "verified export": _when(found.get("verifiedExport")),
            "waits for": escape(found.get("waitsFor") or "") or None,
            "problem": f"[red]{escape(problem['title'])}[/]: {escape(problem['detail'])}"
            if problem
            else None,
            "next step": escape(problem["nextStep"]) if problem else None,
        }
    )
    for line in found.get("events") or []:
        out.print(f"{line['at'][:19]}Z  {escape(line['message'])}", soft_wrap=True)


def _export(export: Json | None) -> str | None:
    if export is None:
        return None
    failed = f", {export['failedFiles']} failed" if export["failedFiles"] else ""
    return f"{export['number']}: {styled(export['state'])}, {export['files']} files{failed}"


def _print_plan(context: Context, plan: Json) -> None:
    if context.json:
        print_json(plan)
        return
    price = plan.get("monthlyUsd")
    print_fields({"price": None if price is None else f"{price:.2f} USD a month"})
    for one in plan["requests"]:
        out.print(f"[bold]{escape(one['operation'])}[/]")
        out.print_json(data=one["request"])
    for warning in plan.get("warnings") or []:
        out.print(f"[yellow]warning[/] {escape(warning)}")
    err.print("Nothing was done.")

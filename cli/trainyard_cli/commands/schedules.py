"""`trainyard schedule ...`: runs that are submitted again and again."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trainyard_sdk.client import Json
from trainyard_sdk.spec_files import read_spec

from ..chains import ordered
from ..context import Context, context_of
from ..screen.fitting import print_fitting
from ..screen.output import (
    confirmed,
    out,
    print_fields,
    print_json,
    styled,
)
from .options import Dryrun, Yes
from .people import Reason
from .plans import print_schedule_plan
from .submission import prepared

schedules = typer.Typer(
    no_args_is_help=True, help="Schedules: runs that are submitted again and again."
)

Name = Annotated[str, typer.Argument(metavar="SCHEDULE", help="name of the schedule")]


@schedules.command()
def add(
    typer_context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="ScheduleSpec in YAML or JSON; - for standard input"),
    ],
    dryrun: Dryrun = False,
) -> None:
    """Add a schedule of a run or a chain. Directories that job.workdir names are uploaded first.

    With --dryrun nothing is done: it says next times, prices and what would be refused.
    """
    context, spec = context_of(typer_context), read_spec(file, "schedule")
    ready, uploads = _ready(context, spec, file, dryrun=dryrun)
    if dryrun:
        print_schedule_plan(context, context.client.plan_schedule(ready), uploads)
    else:
        _print(context, context.client.create_schedule(ready))


def _ready(
    context: Context, spec: Json, file: str, *, dryrun: bool
) -> tuple[Json, dict[str, Json]]:
    """The spec as the API takes it, and by each run's name what went up, or would."""
    from trainyard_sdk.upload.workdir import anchored

    uploads: dict[str, Json] = {}

    def one(run: Json) -> Json:
        found, upload = prepared(context, anchored(run, file), dryrun=dryrun)
        if upload is not None:
            uploads[str(run.get("name"))] = upload
        return found

    ready = dict(spec)
    if isinstance(spec.get("run"), dict):
        ready["run"] = one(spec["run"])
    if isinstance(spec.get("runs"), list):
        ready["runs"] = [one(run) for run in ordered(spec["runs"], file)]
    return ready, uploads


@schedules.command("ls")
def list_schedules(typer_context: typer.Context) -> None:
    """List schedules, newest first."""
    context = context_of(typer_context)
    found = context.client.schedules()
    if context.json:
        print_json({"schedules": found})
        return
    rows = [
        (
            escape(one["name"]),
            styled(one["status"]),
            escape(_when(one)),
            one["nextAt"] or "-",
            _outcome(one["last"]) if one["last"] else "-",
        )
        for one in found
    ]
    if rows:
        heads = ["schedule", "status", "when", "next", "last"]
        print_fitting(heads, rows, ["last", "when", "next"])
    else:
        out.print("No schedules yet. Add one: trainyard schedule add FILE")


@schedules.command()
def show(typer_context: typer.Context, schedule: Name) -> None:
    """Show a schedule, its next times, and what became of those before."""
    context = context_of(typer_context)
    _print(context, context.client.schedule(schedule))


@schedules.command()
def pause(typer_context: typer.Context, schedule: Name, reason: Reason = None) -> None:
    """Submit no run until the schedule is resumed; runs that are there go on."""
    context = context_of(typer_context)
    _print(context, context.client.pause_schedule(schedule, reason=reason))


@schedules.command()
def resume(typer_context: typer.Context, schedule: Name) -> None:
    """Go on with the schedule's next time; those of the pause have no run."""
    context = context_of(typer_context)
    _print(context, context.client.resume_schedule(schedule))


@schedules.command()
def rm(
    typer_context: typer.Context, schedule: Name, reason: Reason = None, yes: Yes = False
) -> None:
    """Delete a schedule; runs that it submitted go on."""
    context = context_of(typer_context)
    confirmed(f"Delete schedule {schedule}?", yes=yes, as_json=context.json)
    _print(context, context.client.delete_schedule(schedule, reason=reason))


def _when(found: Json) -> str:
    return f"{found['cron']} {found['timezone']}" if found["cron"] else f"every {found['rate']}"


def _runs(firing: Json) -> list[str]:
    """Other versions may name the first only."""
    first = firing.get("runId")
    return list(firing.get("runIds") or ([first] if first else []))


def _outcome(firing: Json) -> str:
    return f"{firing['at']} {firing['outcome']} {firing['runId'] or ''}".rstrip()


def _print(context: Context, found: Json) -> None:
    if context.json:
        print_json(found)
        return
    print_fields(
        {
            "schedule": escape(found["name"]),
            "status": styled(found["status"]),
            "when": escape(_when(found)),
            "overlap": found["overlap"],
            "next": "\n".join(found["nextTimes"]),
        }
    )
    rows = [
        (one["at"], one["outcome"], ", ".join(_runs(one)) or "-", escape(one["reason"]))
        for one in found["firings"]
    ]
    if rows:
        print_fitting(["due", "outcome", "run", "reason"], rows, ["reason", "run"])

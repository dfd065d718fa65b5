"""`trainyard run ...`: submit, look at, follow, cancel, resume and export runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Annotated, Literal

import typer
from rich.markup import escape

from ..api.client import Json
from ..context import Context, context_of
from ..problems import DETACHED, FAILED
from ..screen import live
from ..screen.output import (
    ago,
    bytes_text,
    err,
    moment,
    out,
    print_fields,
    print_json,
    print_table,
    styled,
    table,
)
from ..screen.snapshot import TERMINAL
from ..spec_files import read_spec

app = typer.Typer(no_args_is_help=True, help="Runs: one training job's whole life.")

RunId = Annotated[str, typer.Argument(metavar="RUN", help="id of the run (run-...)")]


@app.command()
def submit(
    typer_context: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="RunSpec in YAML or JSON; - for standard input")
    ],
    watch: Annotated[bool, typer.Option("--watch", "-w", help="follow it until it ends")] = False,
    dryrun: Annotated[
        bool, typer.Option("--dryrun", help="show exactly what would be done, and do nothing")
    ] = False,
    idempotency_key: Annotated[
        str | None, typer.Option(help="send the same key again and no second run is made")
    ] = None,
) -> None:
    """Submit a run."""
    context, spec = context_of(typer_context), read_spec(file, "run")
    if dryrun:
        print_plan(context, context.client.plan_run(spec))
        return
    run = context.client.submit_run(spec, idempotency_key=idempotency_key)
    if not context.json:
        err.print(f"Submitted [bold]{run['id']}[/]")
        for warning in run.get("warnings") or []:
            err.print(f"[yellow]warning[/] {escape(warning)}")
    if watch:
        _follow(context, run["id"])
    elif context.json:
        print_json(run)
    else:
        out.print(run["id"], soft_wrap=True)
        err.print(f"Follow it with: trainyard run watch {run['id']}", soft_wrap=True)


@app.command("ls")
def list_runs(
    typer_context: typer.Context,
    status: Annotated[
        str | None, typer.Option(help="only runs of this status, such as Running")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="newest so many")] = 50,
) -> None:
    """List runs, newest first."""
    context = context_of(typer_context)
    runs = context.client.runs(status=status, at_most=limit)
    if context.json:
        print_json({"runs": runs})
        return
    rows = [
        (
            run["id"],
            escape(run["name"]),
            styled(run["status"]),
            run["attemptCount"],
            ago(run["createdAt"]),
            escape(run["reason"][:80]),
        )
        for run in runs
    ]
    if rows:
        print_table(table(["run", "name", "status", "attempts", "age", "reason"], rows))
    else:
        out.print("No runs yet. Start one: trainyard run submit FILE")


@app.command()
def show(typer_context: typer.Context, run: RunId) -> None:
    """Show a run: status, attempts, checkpoints, incidents."""
    context = context_of(typer_context)
    document = context.client.run(run)
    if context.json:
        print_json(document)
        return
    _print_run(document)
    checkpoints = context.client.checkpoints(run)
    if checkpoints:
        there = [found for found in checkpoints if found["status"] != "pruned"]
        rows = [
            (
                found["step"],
                found["attempt"],
                styled(found["status"]),
                bytes_text(found["bytes"]),
                moment(found["committedAt"]),
            )
            for found in there
        ]
        pruned = len(checkpoints) - len(there)
        out.print(f"\n[bold]Checkpoints[/]{f' [dim]({pruned} older pruned)[/]' if pruned else ''}")
        print_table(table(["step", "attempt", "state", "size", "committed"], rows))


def _print_run(run: Json) -> None:
    latest, export, problem = run.get("latest") or {}, run.get("export"), run.get("problem")
    shown: dict[str, object] = {
        "run": f"{run['id']} ({escape(run['name'])})",
        "status": styled(run["status"]),
        "reason": escape(run["reason"]),
        "cluster": f"{escape(run['clusterName'])}{' (deleted)' if run['clusterDeleted'] else ''}",
        "kept because": None
        if run["clusterDeleted"]
        else escape(run.get("teardownRefused") or "") or None,
        "step": latest.get("step"),
        "loss": latest.get("loss"),
        "export": f"{export['state']}, {export['objects']} objects, {bytes_text(export['bytes'])}"
        if export
        else None,
        "problem": f"[red]{escape(problem['title'])}[/]: {escape(problem['detail'])}"
        if problem
        else None,
        "next step": escape(problem["nextStep"]) if problem else None,
    }
    print_fields(shown)
    if run["attempts"]:
        rows = [
            (
                found["number"],
                found.get("jobId") or "-",
                escape(", ".join(found["nodes"])),
                moment(found.get("startedAt")),
                "-" if found.get("resumedFrom") is None else found["resumedFrom"],
                found.get("outcome") or "-",
                escape(found["reason"]),
            )
            for found in run["attempts"]
        ]
        out.print("\n[bold]Attempts[/]")
        print_table(
            table(["#", "job", "nodes", "started", "resumed from", "outcome", "reason"], rows)
        )


@app.command()
def watch(typer_context: typer.Context, run: RunId) -> None:
    """Follow a run until it ends. Ctrl-C detaches; the run goes on."""
    _follow(context_of(typer_context), run)


@contextlib.contextmanager
def _detachable(run_id: str) -> Iterator[None]:
    """Ctrl-C leaves, and the run goes on."""
    try:
        yield
    except KeyboardInterrupt:
        err.print(
            f"\nDetached; run {run_id} goes on. Come back with: trainyard run watch {run_id}",
            soft_wrap=True,
        )
        raise typer.Exit(DETACHED) from None


def _follow(context: Context, run_id: str) -> None:
    with _detachable(run_id):
        # With --json there is no live picture: only the end is printed.
        run = (
            _quietly(context, run_id) if context.json else live.follow(context.client, run_id, out)
        )
    if context.json:
        print_json(run)
    elif run.get("problem"):
        err.print(
            f"[red]{escape(run['problem']['title'])}[/]: "
            f"{escape(run['problem']['detail'])}\nNext: {escape(run['problem']['nextStep'])}"
        )
    if run["status"] != "Succeeded":
        raise typer.Exit(FAILED)


def _quietly(context: Context, run_id: str) -> Json:
    from rich.console import Console

    return live.follow(context.client, run_id, Console(quiet=True))


@app.command()
def events(typer_context: typer.Context, run: RunId) -> None:
    """The timeline: facts, decisions and their reasons."""
    context = context_of(typer_context)
    found = context.client.events(run)
    if context.json:
        print_json({"events": found})
    else:
        live.print_timeline(out, found)


@app.command()
def logs(
    typer_context: typer.Context,
    run: RunId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="go on until the run ends")
    ] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=1000)] = 100,
    kind: Annotated[
        Literal["job", "lifecycle"],
        typer.Option(help="the job's log, or the cluster's lifecycle scripts'"),
    ] = "job",
    attempt: Annotated[int | None, typer.Option(min=1, help="default: the newest")] = None,
) -> None:
    """The tail of the job's log."""
    context = context_of(typer_context)
    if follow and not context.json:
        with _detachable(run):
            live.follow_log(
                context.client, run, _write_line, lines=lines, kind=kind, attempt=attempt
            )
        return
    log = context.client.logs(run, attempt=attempt, lines=lines, kind=kind)
    if context.json:
        print_json(log)
    elif log["text"]:
        _write_line(log["text"].rstrip("\n"))
    else:
        elsewhere = (
            f" What the nodes said when they were made: trainyard run logs --kind lifecycle {run}"
            if kind == "job"
            else ""
        )
        err.print(
            f"Nothing is in the {kind} "
            f"log{'' if attempt is None else f' of attempt {attempt}'}, or there is "
            f"none.{elsewhere}"
        )


def _write_line(text: str) -> None:
    out.print(text, markup=False, soft_wrap=True)


@app.command()
def cancel(typer_context: typer.Context, run: RunId) -> None:
    """Cancel a run: stop the job, export what is whole, delete the run's own cluster."""
    context = context_of(typer_context)
    _accepted(context, context.client.cancel_run(run), "Cancelling")


@app.command()
def resume(
    typer_context: typer.Context,
    run: RunId,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="follow it")] = False,
) -> None:
    """Resume a failed or cancelled run from its newest whole checkpoint."""
    context = context_of(typer_context)
    document = context.client.resume_run(run)
    if watch:
        _follow(context, run)
    else:
        _accepted(context, document, "Resuming")


@app.command()
def export(
    typer_context: typer.Context,
    run: RunId,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait", help="until the export has ended; its end is the exit status"
        ),
    ] = True,
) -> None:
    """Export checkpoints, the final model and the program's own output to S3 now."""
    context = context_of(typer_context)
    before = (context.client.run(run).get("export") or {}).get("id")
    document = context.client.export_run(run)
    if not wait:
        _accepted(context, document, "Exporting")
        return
    if document["status"] not in TERMINAL:  # without it there was nothing to do
        with (
            _detachable(run),
            contextlib.nullcontext() if context.json else err.status(f"Exporting {run}"),
        ):
            document = _until_exported(context, run, before)
    _print_export(context, document)


def _until_exported(context: Context, run_id: str, before: str | None) -> Json:
    """The run once an export that is newer than `before` has ended, for good."""
    while True:
        run = context.client.run(run_id)
        found = run.get("export") or {}
        # The one at the end of a run is tried again when it fails.
        ended = found.get("state") == "verified" or (
            found.get("state") == "failed" and not found["final"]
        )
        if run["status"] in TERMINAL or (ended and found["id"] != before):
            return run
        time.sleep(live.POLL_SECONDS)


def _print_export(context: Context, run: Json) -> None:
    found: Json = run.get("export") or {}
    verified = found.get("state") == "verified"
    if context.json:
        print_json(run)
    elif verified:
        below = run.get("objectsPrefix") or f"runs/{run['id']}"  # where older runs lie
        out.print(
            f"Exported and verified: {found['objects']} objects, {bytes_text(found['bytes'])}, "
            f"below {below}/export/"
        )
        if found.get("leftBehind"):
            err.print(f"[yellow]warning[/] not exported: {escape(found['leftBehind'])}")
    else:
        reason = found["reason"] if found else f"the run is {run['status']}: {run['reason']}"
        err.print(
            (
                f"[red]The export failed[/]: {escape(reason)}\nNext: "
                f"ask again with trainyard run export {run['id']}"
            ),
            soft_wrap=True,
        )
    if not verified:
        raise typer.Exit(FAILED)


def _accepted(context: Context, run: Json, word: str) -> None:
    if context.json:
        print_json(run)
        return
    if run["status"] in TERMINAL:
        out.print(f"{run['id']} is over. {styled(run['status'])}: {escape(run['reason'])}")
    else:
        out.print(f"{word} {run['id']}. {styled(run['status'])}: {escape(run['reason'])}")
        err.print(f"Follow it with: trainyard run watch {run['id']}", soft_wrap=True)


def print_plan(context: Context, plan: Json) -> None:
    """What a dry run answers."""
    if context.json:
        print_json(plan)
        return
    price = plan.get("hourlyUsd")
    print_fields(
        {
            "operation": plan.get("operation"),
            "price": None if price is None else f"{price:.2f} USD an hour",
        }
    )
    out.print_json(data=plan.get("request") or {})
    files = plan.get("files") or {}
    if files:
        out.print(f"[bold]{len(files)} files[/], {bytes_text(sum(files.values()))}")
    if plan.get("batchScript"):
        out.print("[bold]Batch script[/]")
        out.print(plan["batchScript"], markup=False, soft_wrap=True)
    for warning in plan.get("warnings") or []:
        out.print(f"[yellow]warning[/] {escape(warning)}")
    err.print("Nothing was done.")

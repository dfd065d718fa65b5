"""`trainyard run ...`: submit, look at, follow, cancel, resume and export runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated, Literal

import typer
from rich.markup import escape

from trainyard_sdk.client import Json
from trainyard_sdk.following import Which
from trainyard_sdk.spec_files import read_spec

from ..context import Context, context_of
from ..problems import DETACHED, FAILED, ApiProblem
from ..screen import live
from ..screen.output import (
    bytes_text,
    confirmed,
    counted,
    err,
    out,
    print_fields,
    print_json,
    print_table,
    styled,
    table,
)
from ..screen.run_page import print_metrics, print_names, print_run
from ..screen.snapshot import TERMINAL
from ..screen.waiting import Timeout, Wait, Waiting
from ..times import seconds
from .filters import TAKES_LABELS
from .meant import RunGiven, run_meant
from .people import Reason
from .run_list import label, list_runs, priority
from .submission import prepared, print_differences

DAY_SECONDS = 86400

app = typer.Typer(no_args_is_help=True, help="Runs: one training job's whole life.")

Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="do not ask; without a terminal nobody is asked")
]


Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="another value of a field, such as job.nodes=4; in YAML; null takes it out",
    ),
]
Variables = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME=VALUE", help="a variable of the program; repeatable"),
]
NewName = Annotated[str | None, typer.Option("--name", help="another name for the run")]
After = Annotated[
    list[str] | None,
    typer.Option("--after", metavar="RUN", help="begin when this run has succeeded; repeatable"),
]
AfterPolicy = Annotated[
    str | None,
    typer.Option(
        "--after-policy", metavar="success|end", help="end: begin however --after's runs ended"
    ),
]
Dryrun = Annotated[
    bool, typer.Option("--dryrun", help="show exactly what would be done, and do nothing")
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="follow it until it ends")]
Key = Annotated[str | None, typer.Option(help="send the same key again and no second run is made")]
#: What follows `--` is the program's; main keeps it apart, because click does not.
TAKES_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": False}


@app.command(context_settings=TAKES_ARGUMENTS)
def submit(
    typer_context: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="RunSpec in YAML or JSON; - for standard input")
    ],
    watch: Watch = False,
    dryrun: Dryrun = False,
    idempotency_key: Key = None,
    fields: Changes = None,
    environment: Variables = None,
    name: NewName = None,
    after: After = None,
    after_policy: AfterPolicy = None,
) -> None:
    """Submit a run.

    A directory that job.workdir names is uploaded first.

    What follows -- is given to the program.
    """
    from trainyard_sdk.upload.workdir import anchored

    from ..overrides import overridden

    context = context_of(typer_context)
    spec = overridden(
        anchored(read_spec(file, "run"), file),
        fields=[*_following(context, after, after_policy), *(fields or ())],
        environment=environment or (),
        name=name,
        arguments=_arguments(typer_context, context),
    )
    _submit(context, spec, watch=watch, dryrun=dryrun, idempotency_key=idempotency_key)


@app.command(context_settings=TAKES_ARGUMENTS)
def rerun(
    typer_context: typer.Context,
    run: RunGiven,
    watch: Watch = False,
    dryrun: Dryrun = False,
    idempotency_key: Key = None,
    fields: Changes = None,
    environment: Variables = None,
    name: NewName = None,
    from_checkpoint: Annotated[
        int | None,
        typer.Option(metavar="STEP", min=0, help="begin with RUN's whole checkpoint of this step"),
    ] = None,
) -> None:
    """Submit the spec of a run anew, with changes, as a new run from the beginning.

    --from-checkpoint STEP lets it begin with a whole checkpoint of RUN, on the same filesystem.

    Code in git is the very commit that RUN had, unless --set job.git.ref=REF names another.

    What follows -- is given to the program.
    """
    from ..overrides import differences, overridden, same_commit

    context = context_of(typer_context)
    run = run_meant(context, run)
    document = context.client.run(run)
    before = {**document["spec"], **_labels_now(document)}
    spec = overridden(
        before,
        fields=[
            *same_commit(document, fields or ()),
            *([] if from_checkpoint is None else [_start(run, from_checkpoint)]),
            *(fields or ()),
        ],
        environment=environment or (),
        name=name,
        arguments=_arguments(typer_context, context),
    )
    if not context.json:
        print_differences(differences(before, spec))
        if (before["job"].get("workdir") or "") == (spec["job"].get("workdir") or "-"):
            err.print(
                "Its files are those of that run; --set job.workdir=. uploads this directory."
            )
    _submit(context, spec, watch=watch, dryrun=dryrun, idempotency_key=idempotency_key)


def _labels_now(document: Json) -> Json:
    """As people changed them since; none of an API that knows no labels."""
    return {"labels": document["labels"]} if document.get("labels") else {}


def _following(context: Context, after: list[str] | None, policy: str | None) -> list[str]:
    """The runs that it follows, as changes of its spec."""
    runs = [f"after=[{', '.join(run_meant(context, run) for run in after)}]"] if after else []
    return runs + ([f"afterPolicy={policy}"] if policy else [])


def _start(run: str, step: int) -> str:
    return f"checkpoint.startFrom={{run: {run}, step: {step}}}"


def _arguments(typer_context: typer.Context, context: Context) -> list[str]:
    """The program's arguments. Raises UsageError for more without a `--` before it."""
    given = list(typer_context.args)
    if len(given) > len(context.after_dashes):
        typer_context.fail(
            f"'{given[0]}' is one argument too many; the program's own stand behind --"
        )
    return given


def _plan(context: Context, spec: Json, upload: Json | None) -> Json:
    """What the API plans, and what would be uploaded before that."""
    try:
        plan = context.client.plan_run(spec)
    except ApiProblem as problem:
        if upload is None or problem.code != "upload-incomplete":
            raise
        plan = {"warnings": ["The rest is planned once the directory is uploaded."]}
    if upload is None:
        return plan
    # That the directory is not there yet is no news: it would go up first.
    warnings = [one for one in plan.get("warnings") or [] if not one.startswith("job.workdir:")]
    return {**plan, "warnings": warnings, "upload": upload}


def _submit(
    context: Context,
    given: Json,
    *,
    watch: bool,
    dryrun: bool,
    idempotency_key: str | None,
) -> None:
    spec, upload = prepared(context, given, dryrun=dryrun)
    if dryrun:
        print_plan(context, _plan(context, spec, upload))
        return
    run = context.client.submit_run(spec, idempotency_key=idempotency_key)
    if not context.json:
        err.print(f"Submitted [bold]{run['id']}[/]")
        # Who watches reads them in the timeline.
        for warning in [] if watch else run.get("warnings") or []:
            err.print(f"[yellow]warning[/] {escape(warning)}")
    if watch:
        _follow(context, run["id"])
    elif context.json:
        print_json(run)
    else:
        out.print(run["id"], soft_wrap=True)
        err.print(f"Follow it with: trainyard run watch {run['id']}", soft_wrap=True)


app.command("ls")(list_runs)
app.command(context_settings=TAKES_LABELS)(label)
app.command(context_settings=TAKES_LABELS)(priority)


@app.command()
def show(typer_context: typer.Context, run: RunGiven) -> None:
    """Show a run: status, cost, attempts, incidents, checkpoints, and where its results lie."""
    context = context_of(typer_context)
    run = run_meant(context, run)
    document = context.client.run(run)
    if context.json:
        print_json(document)
        return
    checkpoints = context.client.checkpoints(run)
    print_run(document, checkpoints, _cost_of(context, run))


def _cost_of(context: Context, run: str) -> Json | None:
    """None where the API has no answer: all else of the run is shown."""
    try:
        return context.client.run_cost(run)
    except ApiProblem:
        return None


@app.command()
def watch(typer_context: typer.Context, run: RunGiven) -> None:
    """Follow a run until it ends. Ctrl-C detaches; the run goes on."""
    context = context_of(typer_context)
    _follow(context, run_meant(context, run))


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
    if not context.json and (run.get("export") or {}).get("state") == "verified":
        err.print(f"Get the results with: trainyard run download {run_id}", soft_wrap=True)
    if run["status"] != "Succeeded":
        raise typer.Exit(FAILED)


def _quietly(context: Context, run_id: str) -> Json:
    from rich.console import Console

    return live.follow(context.client, run_id, Console(quiet=True))


@app.command()
def events(typer_context: typer.Context, run: RunGiven) -> None:
    """The timeline: facts, decisions and their reasons."""
    context = context_of(typer_context)
    run = run_meant(context, run)
    found = context.client.events(run)
    if context.json:
        print_json({"events": found})
    else:
        live.print_timeline(out, found)


@app.command()
def logs(
    typer_context: typer.Context,
    run: RunGiven,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="go on until the run ends")
    ] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=1000)] = 100,
    kind: Annotated[
        Literal["job", "lifecycle"],
        typer.Option(help="the job's log, or the cluster's lifecycle scripts'"),
    ] = "job",
    attempt: Annotated[int | None, typer.Option(min=1, help="default: the newest")] = None,
    text: Annotated[
        str,
        typer.Option("--grep", metavar="TEXT", help="search all of the log for lines with it"),
    ] = "",
    since: Annotated[
        int | None,
        typer.Option(
            metavar="TIME",
            parser=seconds(8_640_000),
            help="only what was printed since then, such as 10m; of an ended attempt before its "
            "end",
        ),
    ] = None,
    rank: Annotated[int | None, typer.Option(min=0, help="only what this rank printed")] = None,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="only what the ranks of this node printed, each below a heading"
        ),
    ] = None,
) -> None:
    """The tail of the job's log, in which all ranks of all nodes write, or of one rank's own."""
    context = context_of(typer_context)
    if rank is not None and node is not None:
        raise typer.BadParameter("goes not with --rank, which is on one node", param_hint="--node")
    run = run_meant(context, run)
    if follow and not context.json:
        with _detachable(run):
            which = Which(lines, kind, attempt, text, since, rank, node)
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
    name = f"log of rank {rank}" if rank is not None else f"{kind} log"
    name = f"logs of node {escape(node)}" if node is not None else name
    if context.json:
        print_json(log)
    elif log["text"]:
        _write_line(log["text"].rstrip("\n"))
    elif text:
        err.print(f"No line of the {name} has '{escape(text)}' in it.")
    elif since:
        err.print(f"Nothing was printed in {since} seconds, or there is no log.")
    else:
        elsewhere = (
            f" What the nodes said when they were made: trainyard run logs --kind lifecycle {run}"
            if kind == "job"
            else ""
        )
        err.print(
            f"Nothing is in the {name}{'' if attempt is None else f' of attempt {attempt}'}, or "
            f"there is none.{elsewhere}"
        )


@app.command()
def metrics(
    typer_context: typer.Context,
    run: RunGiven,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="a number that the program reports, such as accuracy, not the loss"
        ),
    ] = None,
    names: Annotated[
        bool, typer.Option("--names", help="only list the names that there are, with their numbers")
    ] = False,
    since: Annotated[
        int | None,
        typer.Option(
            metavar="TIME",
            parser=seconds(3650 * 86400),
            help="only its last part, such as 2h; of an ended run before its end",
        ),
    ] = None,
) -> None:
    """Step and speed, and the loss as a curve, or another number that the program reports.

    Of the whole run; also long after it has ended and its cluster is gone.
    """
    context = context_of(typer_context)
    run = run_meant(context, run)
    back = DAY_SECONDS if since is None else min(since, 7 * DAY_SECONDS)
    found = context.client.metrics(run, since_seconds=back, name=name)
    if context.json:
        print_json(found)
    elif names:
        print_names(found)
    else:
        print_metrics(found, out.width, since)


def _write_line(text: str) -> None:
    out.print(text, markup=False, soft_wrap=True)


@app.command()
def cancel(
    typer_context: typer.Context,
    run: RunGiven,
    wait: Wait = False,
    timeout: Timeout = None,
    reason: Reason = None,
    yes: Yes = False,
) -> None:
    """Cancel a run: stop the job, export what is whole, delete the run's own cluster."""
    context = context_of(typer_context)
    run = run_meant(context, run)
    confirmed(f"Cancel {run}?", yes=yes, as_json=context.json)
    document = context.client.cancel_run(run, reason=reason)
    if wait:
        document = _until_ended(context, run, timeout)
    _accepted(context, document, "Cancelling")
    if wait and document["status"] == "Failed":
        raise typer.Exit(FAILED)


@app.command()
def resume(
    typer_context: typer.Context,
    run: RunGiven,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="follow it")] = False,
    filesystem: Annotated[
        str | None,
        typer.Option(
            metavar="DNS/MOUNT",
            help="if the cluster's own filesystem is lost: another one, such as "
            "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com/abcdefgh; what was synced "
            "(export.everySeconds) is brought there",
        ),
    ] = None,
    wait: Wait = False,
    timeout: Timeout = None,
    reason: Reason = None,
) -> None:
    """Resume a failed or cancelled run from its newest whole checkpoint.

    --wait waits for the end of the run, as --watch does, and shows no picture.
    """
    context = context_of(typer_context)
    run = run_meant(context, run)
    document = context.client.resume_run(run, filesystem=filesystem, reason=reason)
    if watch:
        _follow(context, run)
        return
    if wait:
        document = _until_ended(context, run, timeout)
    _accepted(context, document, "Resuming")
    if wait and document["status"] != "Succeeded":
        raise typer.Exit(FAILED)


def _until_ended(context: Context, run_id: str, timeout: int | None) -> Json:
    return _waiting(run_id, timeout).until(
        lambda: context.client.run(run_id), lambda run: run["status"] in TERMINAL, _state
    )


def _waiting(run_id: str, timeout: int | None) -> Waiting:
    back = f"trainyard run watch {run_id}"
    return Waiting(f"run {run_id}", back, timeout, poll_seconds=live.POLL_SECONDS)


def _state(run: Json) -> str:
    return f"{run['status']}: {run['reason']}"


@app.command()
def export(
    typer_context: typer.Context,
    run: RunGiven,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait", help="until the export has ended; its end is the exit status"
        ),
    ] = True,
    timeout: Timeout = None,
    reason: Reason = None,
) -> None:
    """Export checkpoints, the final model and the program's own output to S3 now."""
    context = context_of(typer_context)
    run = run_meant(context, run)
    before = (context.client.run(run).get("export") or {}).get("id")
    document = context.client.export_run(run, reason=reason)
    if not wait:
        _accepted(context, document, "Exporting")
        return
    if document["status"] not in TERMINAL:  # without it there was nothing to do
        document = _waiting(run, timeout).until(
            lambda: context.client.run(run), lambda now: _exported(now, before), _export_state
        )
    _print_export(context, document)


def _exported(run: Json, before: str | None) -> bool:
    """Whether an export that is newer than `before` has ended, for good."""
    found = run.get("export") or {}
    # The one at the end of a run is tried again when it fails.
    ended = found.get("state") == "verified" or (
        found.get("state") == "failed" and not found["final"]
    )
    return run["status"] in TERMINAL or bool(ended and found["id"] != before)


def _export_state(run: Json) -> str:
    return f"{run['status']}, its export {(run.get('export') or {}).get('state') or 'not begun'}"


def _print_export(context: Context, run: Json) -> None:
    found: Json = run.get("export") or {}
    verified = found.get("state") == "verified"
    if context.json:
        print_json(run)
    elif verified:
        below = run.get("objectsPrefix") or f"runs/{run['id']}"  # where older runs lie
        out.print(
            f"Exported and verified: {counted(found['objects'], 'object')}, "
            f"{bytes_text(found['bytes'])}, below {found.get('uri') or f'{below}/export/'}",
            soft_wrap=True,
        )
        err.print(f"Get it with: trainyard run download {run['id']}", soft_wrap=True)
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


#: Words of the batch script that the agent replaces on its node, as they are on AWS.
_MARKS: dict[str, object] = {
    "@PYTHON@": "the interpreter of the cluster's environment (environment.path of its spec)",
    "@LIBRARY@": "/opt/trainyard/lib, where every node has Trainyard's packages",
    "@ATTEMPT_DIR@": "<shared filesystem>/trainyard/runs/<run>/attempts/1: job.json there has the "
    "program, its arguments and its variables",
    "run-000...": "the run's id",
}


def _hourly(one: Json) -> str:
    price = one.get("hourlyUsd")
    return "price not known" if price is None else f"{price:.2f} USD an hour"


def _sizes(files: Json) -> str:
    return f"{counted(len(files), 'file')} of {bytes_text(sum(files.values()))}" if files else ""


def _compared(way: Json) -> str:
    """What a choice between ways goes by."""
    expected, most = way.get("expectedUsd"), way.get("mostUsd")
    zones = " or ".join(way.get("zones") or [])
    parts = [
        _hourly(way),
        "" if expected is None else f"{expected:.2f} USD the run",
        "" if most is None else f"{most:.2f} USD at most",
        f"in {zones}" if zones else "",
        _sizes(way.get("files") or {}) if "way" in way else "",
    ]
    return ", ".join(part for part in parts if part)


def _cannot(plan: Json) -> dict[str, str]:
    """Of each backend once, what others do and it does not."""
    shown = [plan, *(plan.get("ways") or [])]
    return {
        str(one["backend"]): " ".join(one["cannot"])
        for one in shown
        if one.get("backend") and one.get("cannot")
    }


def print_plan(context: Context, plan: Json) -> None:
    """What a dry run answers."""
    if context.json:
        print_json(plan)
        return
    known = plan.get("hourlyUsd") is not None
    price = _compared({**plan, "zones": None}) if known else None
    listed = plan.get("listPrice") or {}
    print_fields(
        {
            "operation": plan.get("operation"),
            "price": price,
            "on AWS": escape(listed.get("words") or ""),
            "": _compared(listed) if listed.get("hourlyUsd") is not None else "",
        }
    )
    for number, one in enumerate(plan.get("ways") or [], start=1):
        out.print(f"way {number}: {escape(one['way'])} ({_compared(one)})", soft_wrap=True)
    for backend, cannot in _cannot(plan).items():
        out.print(f"limits of {escape(backend)}: {escape(cannot)}", soft_wrap=True)
    if plan.get("request"):
        out.print_json(data=plan["request"])
    elif plan.get("batchScript"):
        out.print("The cluster is there: only the job would be submitted.")
    files = plan.get("files") or {}
    if files:
        out.print(f"[bold]{counted(len(files), 'file')}[/], {bytes_text(sum(files.values()))}")
    if plan.get("batchScript"):
        out.print("[bold]Batch script[/]")
        out.print(plan["batchScript"], markup=False, soft_wrap=True)
        out.print("In it stand for what the cluster's own agent puts there:")
        print_fields(_MARKS)
    if plan.get("environment"):
        out.print("[bold]Variables that the program will find[/]")
        print_table(table(["name", "value", "set by"], map(_variable, plan["environment"])))
    for warning in plan.get("warnings") or []:
        out.print(f"[yellow]warning[/] {escape(warning)}")
    err.print("Nothing was done.")


def _variable(one: Json) -> tuple[str, str, str]:
    value, note = one.get("value"), one.get("note") or ""
    shown = f"[dim]{escape(note)}[/]" if value is None else escape(value)
    if value is not None and note:
        shown = f"{shown} [dim]({escape(note)})[/]"
    return escape(one["name"]), shown, escape(one.get("source") or "-")

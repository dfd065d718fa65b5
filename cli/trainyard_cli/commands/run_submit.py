"""`trainyard run submit`, and how a spec becomes a run."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trainyard_sdk.client import Json
from trainyard_sdk.spec_files import read_spec

from ..context import Context, context_of
from ..problems import ApiProblem
from ..screen.output import err, out, print_json
from ..screen.plan_page import print_plan
from .meant import run_meant
from .options import After, AfterPolicy, Changes, Dryrun, Key, NewName, Variables, Watch
from .run_follow import follow_run
from .submission import prepared


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
        arguments=program_arguments(typer_context, context),
    )
    submit_spec(context, spec, watch=watch, dryrun=dryrun, idempotency_key=idempotency_key)


def _following(context: Context, after: list[str] | None, policy: str | None) -> list[str]:
    """The runs that it follows, as changes of its spec."""
    runs = [f"after=[{', '.join(run_meant(context, run) for run in after)}]"] if after else []
    return runs + ([f"afterPolicy={policy}"] if policy else [])


def program_arguments(typer_context: typer.Context, context: Context) -> list[str]:
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


def submit_spec(
    context: Context,
    given: Json,
    *,
    watch: bool,
    dryrun: bool,
    idempotency_key: str | None,
) -> None:
    spec, upload = prepared(context, given, dryrun=dryrun)
    if dryrun:
        print_plan(_plan(context, spec, upload), as_json=context.json)
        return
    run = context.client.submit_run(spec, idempotency_key=idempotency_key)
    if not context.json:
        err.print(f"Submitted [bold]{run['id']}[/]")
        # Who watches reads them in the timeline.
        for warning in [] if watch else run.get("warnings") or []:
            err.print(f"[yellow]warning[/] {escape(warning)}")
    if watch:
        follow_run(context, run["id"])
    elif context.json:
        print_json(run)
    else:
        out.print(run["id"], soft_wrap=True)
        err.print(f"Follow it with: trainyard run watch {run['id']}", soft_wrap=True)

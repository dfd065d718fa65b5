"""`trainyard chain submit`: several runs of one file, each of which begins after others of it."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

import typer

from trainyard_sdk.client import Json
from trainyard_sdk.spec_files import read_chain

from ..chains import alone, ordered, with_ids
from ..context import Context, context_of
from ..problems import ApiProblem
from ..screen.output import err, out, print_json
from .options import Dryrun, Key
from .plans import print_chain_plan
from .submission import prepared

#: Answers that say something of the run itself.
_OF_THE_RUN = frozenset({400, 404, 409, 413, 422})

chains = typer.Typer(no_args_is_help=True, help="Chains: runs that begin after each other.")


@chains.command()
def submit(
    typer_context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="runs: a list of RunSpecs; - for standard input"),
    ],
    dryrun: Dryrun = False,
    idempotency_key: Key = None,
) -> None:
    """Submit the runs of a file; `after` and run:NAME/outputs name others of it.

    All are looked at before the first is submitted. With --dryrun that is all: it says prices and
    what would be refused.
    """
    from trainyard_sdk.upload.workdir import anchored

    context = context_of(typer_context)
    specs = ordered(read_chain(file), file)
    found = [prepared(context, anchored(spec, file), dryrun=dryrun) for spec in specs]
    ready = [spec for spec, _ in found]
    if dryrun:
        _plan(context, found)
        return
    for spec in ready:
        context.client.plan_run(alone(spec))
    runs = _submitted(context, ready, idempotency_key or uuid.uuid4().hex)
    if context.json:
        print_json({"runs": runs})


def _plan(context: Context, found: list[tuple[Json, Json | None]]) -> None:
    """Each run alone, since none of the others has an id yet; all refusals, not the first only."""
    runs, refused = [], []
    uploads = {spec["name"]: upload for spec, upload in found if upload is not None}
    for spec, _ in found:
        plan: Json | None = None
        try:
            plan = context.client.plan_run(alone(spec))
        except ApiProblem as problem:
            if problem.status not in _OF_THE_RUN:
                raise
            if spec["name"] not in uploads or problem.code != "upload-incomplete":
                refused.append(_refusal(spec["name"], problem))
        runs.append({"name": spec["name"], "plan": plan})
    print_chain_plan(context, runs, refused, uploads)


def _refusal(run: str, problem: ApiProblem) -> Json:
    return {
        "run": run,
        "code": problem.code,
        "detail": problem.detail,
        "nextStep": problem.next_step or "",
    }


def _submitted(context: Context, specs: list[dict[str, Any]], key: str) -> list[Json]:
    """One after the other: each needs the ids of those before it."""
    ids: dict[str, str] = {}
    runs = []
    for spec in specs:
        own_key = f"{key[:60]}-{spec['name']}"
        run = context.client.submit_run(with_ids(spec, ids), idempotency_key=own_key)
        ids[spec["name"]] = run["id"]
        runs.append(run)
        if not context.json:
            out.print(f"{run['id']}  {spec['name']}", soft_wrap=True)
    if not context.json:
        err.print(f"Submitted {len(runs)} runs. Look at them with: trainyard run ls")
    return runs

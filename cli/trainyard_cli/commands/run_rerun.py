"""`trainyard run rerun`: the spec of a run submitted anew, with changes."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard_sdk.client import Json

from ..context import context_of
from ..screen.output import err
from .meant import RunGiven, run_meant
from .options import Changes, Dryrun, Key, NewName, Variables, Watch
from .run_submit import program_arguments, submit_spec
from .submission import print_differences

FirstStep = Annotated[
    int | None,
    typer.Option(metavar="STEP", min=0, help="begin with RUN's whole checkpoint of this step"),
]


def rerun(
    typer_context: typer.Context,
    run: RunGiven,
    watch: Watch = False,
    dryrun: Dryrun = False,
    idempotency_key: Key = None,
    fields: Changes = None,
    environment: Variables = None,
    name: NewName = None,
    from_checkpoint: FirstStep = None,
) -> None:
    """Submit the spec of a run anew, with changes, as a new run from the beginning.

    --from-checkpoint STEP lets it begin with a whole checkpoint of RUN, on the same filesystem.

    Code in git is the very commit that RUN had, unless --set job.git.ref=REF names another.

    What follows -- is given to the program.
    """
    from ..overrides import overridden, same_commit

    context = context_of(typer_context)
    run = run_meant(context, run)
    document = context.client.run(run)
    before = {**document["spec"], **_labels_now(document)}
    changes = [*_start(run, from_checkpoint), *(fields or ())]
    spec = overridden(
        before,
        fields=[*same_commit(document, fields or ()), *changes],
        environment=environment or (),
        name=name,
        arguments=program_arguments(typer_context, context),
    )
    if not context.json:
        _print_changes(before, spec)
    submit_spec(context, spec, watch=watch, dryrun=dryrun, idempotency_key=idempotency_key)


def _print_changes(before: Json, spec: Json) -> None:
    from ..overrides import differences

    print_differences(differences(before, spec))
    if (before["job"].get("workdir") or "") == (spec["job"].get("workdir") or "-"):
        err.print("Its files are those of that run; --set job.workdir=. uploads this directory.")


def _labels_now(document: Json) -> Json:
    """As people changed them since; none of an API that knows no labels."""
    return {"labels": document["labels"]} if document.get("labels") else {}


def _start(run: str, step: int | None) -> list[str]:
    """Its first checkpoint, as a change of its spec."""
    return [] if step is None else [f"checkpoint.startFrom={{run: {run}, step: {step}}}"]

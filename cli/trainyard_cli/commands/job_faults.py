"""`trainyard fault ...` of training jobs: their hosts, their programs and their capacity."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trainyard_sdk.client import Client

from ..context import context_of
from ..screen.output import out, print_json

Job = Annotated[str, typer.Argument(metavar="JOB", help="name of the training job")]
Host = Annotated[str | None, typer.Option(help="as algo-1; default: the job's last one")]
InstanceType = Annotated[str, typer.Argument(metavar="TYPE", help="as ml.c5.xlarge")]
Seconds = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0.1, help="pass by itself after so long; default: stay"),
]


def add_to(faults: typer.Typer) -> None:
    """Add these commands to those of clusters."""
    faults.command("kill-host")(kill_host)
    faults.command("kill-host-process")(kill_host_process)
    faults.command("interrupt-spot")(interrupt_spot)
    faults.command("internal-error")(internal_error)
    faults.command("no-capacity")(no_capacity)
    faults.command("restore-capacity")(restore_capacity)


def kill_host(typer_context: typer.Context, job: Job, host: Host = None) -> None:
    """Take a host of a training job away at once, as a power cut does."""
    _inject(typer_context, "kill-host", job=job, host=host)


def kill_host_process(typer_context: typer.Context, job: Job, host: Host = None) -> None:
    """Kill one program of a training job: a rank, if there is one."""
    _inject(typer_context, "kill-host-process", job=job, host=host)


def interrupt_spot(typer_context: typer.Context, job: Job) -> None:
    """Take the spot instances of a training job back, after the usual notice."""
    _inject(typer_context, "interrupt-spot", job=job)


def internal_error(typer_context: typer.Context, job: Job) -> None:
    """Fail a training job's attempt by an error of SageMaker's own."""
    _inject(typer_context, "internal-error", job=job)


def no_capacity(
    typer_context: typer.Context, instance_type: InstanceType, seconds: Seconds = None
) -> None:
    """Let there be no new instance of a type, for training jobs and for clusters."""
    _inject(typer_context, "no-capacity", instance_type=instance_type, seconds=seconds)


def restore_capacity(typer_context: typer.Context, instance_type: InstanceType) -> None:
    """Let there be enough instances of a type again."""
    _inject(typer_context, "restore-capacity", instance_type=instance_type)


def _inject(
    typer_context: typer.Context,
    kind: str,
    *,
    job: str | None = None,
    host: str | None = None,
    instance_type: str | None = None,
    seconds: float | None = None,
) -> None:
    context = context_of(typer_context)
    client = context.client if context.endpoint else Client.from_state_dir(context.state_dir)
    answer = client.job_fault(
        kind, job=job, host=host, instance_type=instance_type, seconds=seconds
    )
    if context.json:
        print_json(answer)
    else:
        said = ", ".join(f"{key} {value}" for key, value in answer.items() if key != "kind")
        out.print(f"{kind}: {escape(said)}")

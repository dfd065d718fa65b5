"""The `trainyard` command: groups, global options, and the place that turns errors into codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from trainyard_sdk.version import version

from . import examples, reasons
from .commands import completion as shells
from .commands import job_faults
from .commands.adoption import adopt, release
from .commands.api_call import api
from .commands.approvals import approvals
from .commands.arrays import arrays
from .commands.budgets import budgets
from .commands.chains import chains
from .commands.clusters import clusters, nodes
from .commands.console import console
from .commands.contexts import contexts
from .commands.costs import cluster_cost, cost, costs
from .commands.data import data
from .commands.filesystems import filesystems
from .commands.local import local
from .commands.local_faults import faults
from .commands.local_people import users
from .commands.mcp import mcp
from .commands.people import add_share, audit, whoami
from .commands.results import download, outputs
from .commands.runs import app as runs
from .commands.schedules import schedules
from .commands.start import init
from .commands.webhooks import webhooks
from .context import Context, context_of
from .doctor.command import doctor
from .first_light.command import first_light
from .problems import EXIT_CODES, OK, CliError
from .screen.output import out, print_error

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(runs, name="run")
app.add_typer(arrays, name="array")
app.add_typer(approvals, name="approval")
app.add_typer(webhooks, name="webhook")
app.add_typer(budgets, name="budget")
app.add_typer(chains, name="chain")
app.add_typer(schedules, name="schedule")
app.add_typer(clusters, name="cluster")
app.add_typer(nodes, name="node")
app.add_typer(filesystems, name="filesystem")
app.add_typer(data, name="data")
app.add_typer(local, name="local")
job_faults.add_to(faults)
app.add_typer(faults, name="fault")
local.add_typer(users, name="user")
add_share(runs, "run")
add_share(clusters, "cluster")
add_share(filesystems, "filesystem")
add_share(arrays, "array")
add_share(schedules, "schedule")
clusters.command()(adopt)
clusters.command()(release)
runs.command()(outputs)
runs.command()(download)
runs.command()(cost)
clusters.command("cost")(cluster_cost)
app.add_typer(contexts, name="context")
app.command()(api)
app.command()(shells.completion)
app.command()(init)
app.command()(whoami)
app.command()(audit)
app.command()(costs)
app.command()(doctor)
app.command()(first_light)
app.command()(mcp)
app.command()(console)
reasons.add_to(app)
examples.add_to(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"trainyard {version()}")
        raise typer.Exit


@app.callback(
    help=f"Distributed training on AWS with nobody watching.\n\n{EXIT_CODES}",
    epilog="The options above may stand anywhere.",
)
def options(
    typer_context: typer.Context,
    endpoint: Annotated[
        str | None,
        typer.Option(
            help="URL of the API, also by TRAINYARD_API_URL; default: that of the context in use, "
            "or the local cloud's"
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(help="another context than the one in use, also by TRAINYARD_CONTEXT"),
    ] = None,
    state_dir: Annotated[
        str | None,
        typer.Option(
            envvar="TRAINYARD_STATE_DIR", help="the local cloud's directory; default: .trainyard"
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="JSON on stdout and nothing else there")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="show the version and exit"
        ),
    ] = False,
) -> None:
    context_of(typer_context).given(endpoint, context, state_dir, json)


_VALUED = ("--endpoint", "--context", "--state-dir")
_WITH_VALUE = tuple(f"{option}=" for option in _VALUED)


def hoist_options(arguments: Sequence[str]) -> list[str]:
    """Move the global options to the front, so that they may be anywhere before a `--`."""
    front: list[str] = []
    rest: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            rest += [argument, *remaining]
        elif argument == "--json" or argument.startswith(
            ("--endpoint=", "--context=", "--state-dir=")
        ):
            front.append(argument)
        elif argument in _VALUED:
            front += [argument, *[value for value in [next(remaining, None)] if value is not None]]
        else:
            rest.append(argument)
    return front + rest


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code."""
    given = hoist_options(arguments)
    try:
        behind = given[given.index("--") + 1 :] if "--" in given else []
        shells.ready()
        app(given, prog_name="trainyard", obj=Context(after_dashes=tuple(behind)))
    except CliError as error:
        print_error(error, as_json="--json" in given)
        return error.exit_code
    except (
        SystemExit
    ) as end:  # how typer ends: wrong usage is 2, and typer.Exit carries the command's own code
        if isinstance(
            end.__context__, BrokenPipeError
        ):  # `trainyard ... | head`, which typer makes a failure
            return OK
        return end.code if isinstance(end.code, int) else OK
    except BrokenPipeError:  # `trainyard ... | head`
        sys.stderr.close()
    return OK


def main() -> None:
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

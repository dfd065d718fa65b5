"""`trainyard local ...`: the local cloud goes up and down."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape

from ..context import Context, context_of
from ..problems import UNREACHABLE, InvalidInput, Unreachable
from ..screen.output import err, out, print_fields, print_json, print_table, styled, table
from .local_control import RECORDS_GONE, control_package, told
from .local_down import down

local = typer.Typer(
    no_args_is_help=True, help="The local cloud: template.yaml on this machine, with real nodes."
)
#: On one machine a fresh sample every two seconds costs nothing; on AWS each is an event.
LOCAL_PARAMETERS = {"HeartbeatSeconds": "2"}
Port = Annotated[
    int, typer.Option(metavar="PORT", min=0, max=65535, help="loopback port; 0 takes a free one")
]
Template = Annotated[Path, typer.Option(help="the SAM template to deploy")]
Nodes = Annotated[
    Literal["processes", "machines"],
    typer.Option(
        help="what a node is: a process tree, or a booted machine (root, Debian's packages)"
    ),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="of the template, such as Admins=ARN; repeatable"),
]


@local.command()
def up(
    typer_context: typer.Context,
    port: Port = 4780,
    template: Template = Path("template.yaml"),
    nodes: Nodes = "processes",
    parameter: Parameters = None,
) -> None:
    """Start the local cloud and deploy the template."""
    context, control = context_of(typer_context), control_package()
    if not template.is_file():
        raise InvalidInput(
            "No template",
            f"{template} does not exist",
            "Run this in a clone of Trainyard, or give --template",
        )
    with told(control), err.status("Starting the local cloud") as shown:

        def tell(words: str) -> None:
            shown.update(escape(f"Local cloud: {words}"))

        killed = control.status(context.state_dir).get("killed")
        document: dict[str, Any] = control.up(
            context.state_dir, port, template, _parameters(parameter), tell, nodes=nodes
        )
    if killed:
        err.print(f"An earlier local cloud was here. {RECORDS_GONE}")
    if context.json:
        print_json(document)
        return
    print_fields(
        {
            "API": document["apiUrl"],
            "endpoint": document["endpoint"],
            "state": str(context.state_dir),
        }
    )
    err.print("Next: trainyard run submit examples/ddp-demo.yaml --watch")


def _parameters(given: list[str] | None) -> dict[str, str]:
    found = dict(LOCAL_PARAMETERS)
    for one in given or []:
        name, equals, value = one.partition("=")
        if not equals or not name.isalnum():
            raise InvalidInput(
                "A parameter cannot be read", f"--parameter {one}", "Give it as NAME=VALUE"
            )
        found[name] = value
    return found


local.command()(down)


@local.command()
def update(
    typer_context: typer.Context,
    template: Annotated[Path, typer.Option(help="the SAM template whose code to run")] = Path(
        "template.yaml"
    ),
) -> None:
    """Run changed code in the local cloud that is up.

    Runs and clusters stay, and nodes keep the agent that they have.
    """
    context, control = context_of(typer_context), control_package()
    there: dict[str, Any] = control.status(context.state_dir)
    if not there["running"]:
        raise _is_down(context, there)
    with told(control), err.status("Updating the local cloud"):
        control.update(context.state_dir, template)
    if context.json:
        print_json({"template": str(template.resolve())})
    else:
        err.print("The code is updated. Clusters that are made from now on get its agent, too.")


@local.command()
def status(typer_context: typer.Context) -> None:
    """Whether the local cloud is up, and what it runs."""
    context, control = context_of(typer_context), control_package()
    document: dict[str, Any] = control.status(context.state_dir)
    if context.json:
        print_json(document)
    elif document["running"]:
        _print_status(document)
    if not document["running"]:
        if context.json:
            raise typer.Exit(UNREACHABLE)
        raise _is_down(context, document)


def _is_down(context: Context, document: dict[str, Any]) -> Unreachable:
    processes = len(document["processes"])
    left = f"; {processes} processes are left of it" if processes else ""
    left += f". {RECORDS_GONE}" if document.get("killed") else ""
    return Unreachable(
        "The local cloud is down",
        f"nothing runs in {context.state_dir}{left}",
        "Start it with: trainyard local up",
    )


def _print_status(document: dict[str, Any]) -> None:
    there, cloud = document["local"], document["cloud"]
    print_fields(
        {
            "API": there["apiUrl"],
            "endpoint": there["endpoint"],
            "process": there["pid"],
            "processes": len(document["processes"]),
        }
    )
    for cluster in (cloud.get("nodes") or cloud.get("hyperpod") or {}).get("clusters", []):
        rows = [
            (node["name"], node["instanceId"], node["group"], node["status"], len(node["pids"]))
            for node in cluster["nodes"]
        ]
        out.print(f"\n[bold]{escape(cluster['name'])}[/] {styled(cluster['status'])}")
        print_table(table(["node", "instance", "group", "state", "processes"], rows))

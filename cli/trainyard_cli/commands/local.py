"""`trainyard local ...` and `trainyard fault ...`: the local cloud, and faults to inject."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape

from trainyard_sdk.client import Client

from ..context import Context, context_of
from ..problems import FAILED, UNREACHABLE, CliError, Conflict, InvalidInput, Unreachable
from ..screen.output import err, out, print_fields, print_json, print_table, styled, table
from ..screen.snapshot import TERMINAL

local = typer.Typer(
    no_args_is_help=True, help="The local cloud: template.yaml on this machine, with real nodes."
)
faults = typer.Typer(
    no_args_is_help=True, help="Faults in the local cloud, to see a run survive them."
)

#: On one machine a fresh sample every two seconds costs nothing; on AWS each is an event.
LOCAL_PARAMETERS = {"HeartbeatSeconds": "2"}

#: Of the newest so many, `down` looks for active ones.
ASKED_RUNS = 1000
RECORDS_GONE = (
    "Its server was killed: the records of its runs and clusters, and what was exported, were "
    "in its memory and are gone. "
    "Submit the runs again after `trainyard local up`."
)

Cluster = Annotated[str, typer.Argument(metavar="CLUSTER", help="name of the cluster")]
Node = Annotated[
    str | None, typer.Option(help="instance id or node name; default: one that trains")
]
ThatNode = Annotated[str, typer.Option(help="instance id or node name")]
Seconds = Annotated[
    float | None,
    typer.Option(min=0.1, max=3600, help="pass by itself after so long; default: stay"),
]
Run = Annotated[
    str | None, typer.Option(help="id of the run; default: the one that trains on the cluster")
]
Percent = Annotated[
    int, typer.Option(min=1, max=100, help="so many of the packets are lost, each way")
]
Milliseconds = Annotated[
    int, typer.Option(min=1, max=10_000, help="packets come so much later, each way")
]
#: Of nodes that boot only: what the local cloud says to the others, it says in words.
MACHINES = "With --nodes machines."


def _control() -> ModuleType:
    return loaded("control")


def loaded(name: str) -> ModuleType:
    """A module of the local cloud's package, which is optional: calls to AWS do not need it."""
    try:
        return import_module(f"trainyard_local.{name}")
    except ImportError as error:
        raise CliError(
            "The local cloud is not installed",
            str(error),
            "Run make setup in a clone of Trainyard, or: pip install 'trainyard[local]'",
        ) from error


def said() -> contextlib.AbstractContextManager[None]:
    """The local cloud's own errors within it become this command's errors."""
    return _told(_control())


@contextlib.contextmanager
def _told(control: ModuleType) -> Iterator[None]:
    """Turn the local cloud's own errors into this command's errors."""
    try:
        yield
    except control.InTheWay as error:
        raise Conflict(
            "Something is in the local cloud's way", error.message, error.remedy
        ) from error
    except control.Unusable as error:
        raise InvalidInput(
            "The local cloud cannot be made of this", error.message, error.remedy
        ) from error
    except control.ControlError as error:
        raise CliError("The local cloud says no", error.message, error.remedy) from error


Port = Annotated[int, typer.Option(min=0, max=65535, help="loopback port; 0 takes a free one")]
Template = Annotated[Path, typer.Option(help="the SAM template to deploy")]
Nodes = Annotated[
    Literal["processes", "machines"],
    typer.Option(
        help="what a node is: a process tree, or a booted machine (root, Debian's packages)"
    ),
]


@local.command()
def up(
    typer_context: typer.Context,
    port: Port = 4780,
    template: Template = Path("template.yaml"),
    nodes: Nodes = "processes",
    parameter: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="of the template, such as Admins=ARN; repeatable"),
    ] = None,
) -> None:
    """Start the local cloud and deploy the template."""
    context, control = context_of(typer_context), _control()
    if not template.is_file():
        raise InvalidInput(
            "No template",
            f"{template} does not exist",
            "Run this in a clone of Trainyard, or give --template",
        )
    with _told(control), err.status("Starting the local cloud") as shown:

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


@local.command()
def down(
    typer_context: typer.Context,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="also while runs are active; they are lost")
    ] = False,
) -> None:
    """Stop the local cloud and all that it started, and delete its runs, exports and checkpoints.

    It also works after the cloud was killed.
    """
    context, control = context_of(typer_context), _control()
    there: dict[str, Any] = control.status(context.state_dir)
    if there["running"] and not yes:
        _ask(context)
    with _told(control), err.status("Stopping the local cloud"):
        document: dict[str, Any] = control.down(context.state_dir)
    if context.json:
        print_json(document)
    else:
        killed = document["killed"]
        out.print(
            "The local cloud is down."
            + (f" {killed} process{'es' * (killed != 1)} had to be killed." if killed else "")
        )
        if not there["running"] and there.get("killed"):
            err.print(RECORDS_GONE)


def _ask(context: Context) -> None:
    """Ask the user before active runs are lost.

    A cloud that cannot say what it runs is taken down.
    """
    try:
        client = Client.from_state_dir(context.state_dir)
        active = [run for run in client.runs(at_most=ASKED_RUNS) if run["status"] not in TERMINAL]
    except CliError:
        return
    if not active:
        return
    named = ", ".join(f"{run['id']} ({run['status']})" for run in active[:3]) + (
        f" and {len(active) - 3} more" if len(active) > 3 else ""
    )
    what = (
        f"{len(active)} run{'s are' if len(active) > 1 else ' is'} active: {named}. "
        "Their checkpoints and exports go with the local cloud."
    )
    if context.json or not sys.stdin.isatty():
        raise Conflict("Runs are active", what, "Wait for them, cancel them, or say --yes")
    err.print(what)
    typer.confirm("Take it down?", abort=True, err=True)


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
    context, control = context_of(typer_context), _control()
    there: dict[str, Any] = control.status(context.state_dir)
    if not there["running"]:
        raise _is_down(context, there)
    with _told(control), err.status("Updating the local cloud"):
        control.update(context.state_dir, template)
    if context.json:
        print_json({"template": str(template.resolve())})
    else:
        err.print("The code is updated. Clusters that are made from now on get its agent, too.")


@local.command()
def status(typer_context: typer.Context) -> None:
    """Whether the local cloud is up, and what it runs."""
    context, control = context_of(typer_context), _control()
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


def _inject(
    typer_context: typer.Context,
    kind: str,
    cluster: str,
    node: str | None = None,
    run: str | None = None,
    seconds: float | None = None,
    **more: int | None,
) -> None:
    context = context_of(typer_context)
    client = context.client if context.endpoint else Client.from_state_dir(context.state_dir)
    answer = client.fault(kind, cluster, node=node, run=run, seconds=seconds, **more)
    if context.json:
        print_json(answer)
    else:
        out.print(
            f"{kind} on {escape(cluster)}: "
            f"{escape(', '.join(f'{key} {value}' for key, value in answer.items())) or 'done'}"
        )
    if answer.get("error"):
        raise typer.Exit(FAILED)


@faults.command("kill-node")
def kill_node(typer_context: typer.Context, cluster: Cluster, node: Node = None) -> None:
    """Kill everything on a node at once, as a power cut does."""
    _inject(typer_context, "kill-node", cluster, node)


def _node_fault(kind: str, does: str, *, epilog: str | None = None) -> None:
    """The command of a fault that befalls a whole node and may pass by itself."""

    def inject(
        typer_context: typer.Context, cluster: Cluster, node: Node = None, seconds: Seconds = None
    ) -> None:
        _inject(typer_context, kind, cluster, node, seconds=seconds)

    faults.command(kind, help=does, epilog=epilog)(inject)


_node_fault(
    "freeze-node",
    (
        "Let everything on a node stand still, as on a frozen host: "
        "its ports still accept, nobody answers."
    ),
)
_node_fault("freeze-agent", "Let a node's agent alone stand still; training must not notice.")
_node_fault(
    "cut-link",
    "Cut a node's link: nothing answers and nothing refuses; the node itself works on.",
    epilog=MACHINES,
)
_node_fault(
    "cut-peers", "Cut a node off from all other nodes; it still reaches AWS.", epilog=MACHINES
)
_node_fault(
    "cut-aws", "Cut a node off from AWS; it still reaches all other nodes.", epilog=MACHINES
)
_node_fault(
    "lose-incoming", "Let nothing reach a node, though what it sends arrives.", epilog=MACHINES
)
_node_fault(
    "lose-outgoing",
    "Let nothing that a node sends arrive, though it hears the others.",
    epilog=MACHINES,
)


@faults.command("lose-packets", epilog=MACHINES)
def lose_packets(
    typer_context: typer.Context,
    cluster: Cluster,
    node: Node = None,
    percent: Percent = 5,
    seconds: Seconds = None,
) -> None:
    """Lose a share of a node's packets."""
    _inject(typer_context, "lose-packets", cluster, node, seconds=seconds, percent=percent)


@faults.command("slow-link", epilog=MACHINES)
def slow_link(
    typer_context: typer.Context,
    cluster: Cluster,
    node: Node = None,
    milliseconds: Milliseconds = 300,
    percent: Percent = 5,
    seconds: Seconds = None,
) -> None:
    """Make a node's link slow and lossy."""
    _inject(
        typer_context,
        "slow-link",
        cluster,
        node,
        seconds=seconds,
        milliseconds=milliseconds,
        percent=percent,
    )


@faults.command("heal-node")
def heal_node(typer_context: typer.Context, cluster: Cluster, node: ThatNode) -> None:
    """End what befell a node and can pass."""
    _inject(typer_context, "heal-node", cluster, node)


@faults.command("stop-agent")
def stop_agent(typer_context: typer.Context, cluster: Cluster, node: Node = None) -> None:
    """Kill a node's agent only; training must not notice."""
    _inject(typer_context, "stop-agent", cluster, node)


@faults.command("start-agent")
def start_agent(typer_context: typer.Context, cluster: Cluster, node: ThatNode) -> None:
    """Start a node's agent again."""
    _inject(typer_context, "start-agent", cluster, node)


@faults.command("kill-process")
def kill_process(
    typer_context: typer.Context, cluster: Cluster, node: Node = None, run: Run = None
) -> None:
    """Kill one training process."""
    _inject(typer_context, "kill-process", cluster, node, run)


@faults.command("corrupt-checkpoint")
def corrupt_checkpoint(typer_context: typer.Context, cluster: Cluster, run: Run = None) -> None:
    """Flip a byte in the newest checkpoint."""
    _inject(typer_context, "corrupt-checkpoint", cluster, run=run)

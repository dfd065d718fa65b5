"""`trainyard fault ...`: faults to inject into the local cloud's nodes."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trainyard_sdk.client import Client

from ..context import context_of
from ..problems import FAILED
from ..screen.output import out, print_json

faults = typer.Typer(
    no_args_is_help=True, help="Faults in the local cloud, to see a run survive them."
)

Cluster = Annotated[str, typer.Argument(metavar="CLUSTER", help="name of the cluster")]
Node = Annotated[
    str | None, typer.Option(help="instance id or node name; default: one that trains")
]
ThatNode = Annotated[str, typer.Option(help="instance id or node name")]
Seconds = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", min=0.1, max=3600, help="pass by itself after so long; default: stay"
    ),
]
Run = Annotated[
    str | None, typer.Option(help="id of the run; default: the one that trains on the cluster")
]
Percent = Annotated[
    int,
    typer.Option(
        metavar="PERCENT", min=1, max=100, help="so many of the packets are lost, each way"
    ),
]
Milliseconds = Annotated[
    int,
    typer.Option(
        metavar="MILLISECONDS", min=1, max=10_000, help="packets come so much later, each way"
    ),
]
#: Of nodes that boot only: what the local cloud says to the others, it says in words.
MACHINES = "With --nodes machines."


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

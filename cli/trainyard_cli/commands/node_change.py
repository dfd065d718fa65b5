"""`trainyard node replace` and `reboot`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from trainyard_sdk.client import Json

from ..context import Context, context_of
from ..problems import FAILED
from ..screen.output import err, out, print_json
from ..screen.waiting import Timeout, Waiting
from . import cluster_waiting
from .cluster_waiting import ClusterName
from .node_meant import NodeGiven, ask_if_it_trains, instance_id_of
from .options import Yes
from .people import Reason


def replace(
    typer_context: typer.Context,
    cluster: ClusterName,
    instance: NodeGiven,
    wait: Annotated[
        bool, typer.Option("--wait", "-w", help="until another instance runs in its place")
    ] = False,
    timeout: Timeout = None,
    reason: Reason = None,
    yes: Yes = False,
) -> None:
    """Replace a node by a new instance."""
    context = context_of(typer_context)
    node = instance_id_of(context, cluster, instance)
    ask_if_it_trains(context, cluster, node, "Replace", yes=yes)
    before = context.client.nodes(cluster) if wait else []
    result = context.client.replace_node(cluster, node, reason=reason)
    if wait and not result["failed"]:
        back = f"trainyard node ls {cluster}"
        Waiting(f"node {node}", back, timeout, poll_seconds=cluster_waiting.POLL_SECONDS).until(
            lambda: context.client.nodes(cluster),
            lambda now: _is_replaced(node, before, now),
            lambda now: "still there" if _with_id(now, node) else "gone, its successor not there",
        )
    _print_batch(context, result, "Replaced" if wait else "Replacing")


def _with_id(nodes: list[Json], instance_id: str) -> list[Json]:
    return [node for node in nodes if node["instanceId"] == instance_id]


def _is_replaced(instance_id: str, before: list[Json], now: list[Json]) -> bool:
    """Whether it is gone and its group has an instance that runs and was not there before."""
    groups = {node["group"] for node in _with_id(before, instance_id)}
    known = {node["instanceId"] for node in before}
    fresh = [node for node in now if node["instanceId"] not in known and node["group"] in groups]
    return not _with_id(now, instance_id) and any(node["status"] == "Running" for node in fresh)


def reboot(
    typer_context: typer.Context,
    cluster: ClusterName,
    instance: NodeGiven,
    reason: Reason = None,
    yes: Yes = False,
) -> None:
    """Reboot a node."""
    context = context_of(typer_context)
    node = instance_id_of(context, cluster, instance)
    ask_if_it_trains(context, cluster, node, "Reboot", yes=yes)
    result = context.client.reboot_node(cluster, node, reason=reason)
    _print_batch(context, result, "Rebooting")


def _print_batch(context: Context, result: Json, word: str) -> None:
    if context.json:
        print_json(result)
    else:
        for instance in result["successful"]:
            out.print(f"{word} {instance}")
        for instance, reason in result["failed"].items():
            err.print(f"[red]{instance}[/] {escape(reason)}")
    if result["failed"]:
        raise typer.Exit(FAILED)

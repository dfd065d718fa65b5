"""`trainyard node ls`: a cluster's nodes, and how they are."""

from __future__ import annotations

import typer
from rich.markup import escape

from trainyard_sdk.client import Json

from ..context import context_of
from ..screen.fitting import print_fitting
from ..screen.output import bytes_text, out, print_json, scheduler_word, styled
from .cluster_waiting import ClusterName

#: These have room below their node, the first one first.
_BELOW = ("memory", "CPU", "Slurm", "agent", "role", "group", "state", "type")


def list_nodes(typer_context: typer.Context, cluster: ClusterName) -> None:
    """List nodes with their health and newest sample."""
    context = context_of(typer_context)
    found = context.client.nodes(cluster)
    if context.json:
        print_json({"nodes": found})
        return
    columns = [
        "node",
        "instance",
        "group",
        "role",
        "type",
        "state",
        "agent",
        "Slurm",
        "CPU",
        "memory",
    ]
    if found:
        print_fitting(columns, [_node_row(node) for node in found], _BELOW)
    else:
        out.print("No nodes.")


def _node_row(node: Json) -> list[object]:
    sample = node.get("sample") or {}
    memory = (
        f"{bytes_text(sample['memoryUsedBytes'])} / {bytes_text(sample['memoryTotalBytes'])}"
        if sample
        else "-"
    )
    state = [styled(word) for word in (node["status"], node["agent"], scheduler_word(node))]
    load = [f"{sample['cpuPercent']:.0f}%" if sample else "-", memory]
    return [
        node.get("name") or "-",
        node["instanceId"],
        escape(node["group"]),
        node["role"],
        node["instanceType"],
        *state,
        *load,
    ]

"""A cluster, as it is shown to people."""

from __future__ import annotations

from collections import Counter

from rich.markup import escape

from trainyard_sdk.client import Json

from ..cluster_groups import groups_of
from .output import print_fields, print_json, styled
from .words import labels_text, name_of


def sharing_text(cluster: Json) -> str | None:
    """'fair by team; team=vision: at most 2 runs; each owner: at most 4 nodes'"""
    sharing = cluster.get("sharing") or {}
    words = [f"fair by {sharing['fairBy']}"] if sharing.get("fairBy") else []
    for limit in sharing.get("limits") or []:
        whose = f"{limit.get('label')}={limit.get('value') or '*'}"
        if limit.get("owner"):
            whose = f"owner {limit['owner']}"
        most = [
            f"{limit[field]} {noun}"
            for field, noun in (("maxRuns", "runs"), ("maxNodes", "nodes"))
            if limit.get(field)
        ]
        words.append(f"{whose}: at most {' and '.join(most)}")
    return escape("; ".join(words)) or "no limits"


def _owner(cluster: Json) -> str | None:
    owner = cluster.get("createdBy")
    return f"{name_of(owner)} ({escape(owner['arn'])})" if owner else None


def print_cluster(cluster: Json, *, as_json: bool) -> None:
    if as_json:
        print_json(cluster)
        return
    problem = cluster.get("problem")
    print_fields(
        {
            "cluster": escape(cluster["name"]),
            "status": styled(cluster["status"]),
            "backend": cluster["spec"]["backend"],
            "groups": ", ".join(
                f"{group.name} {group.number}+{group.spares} {group.instance_type}"
                for group in groups_of(cluster["spec"])
            ),
            "labels": escape(labels_text(cluster.get("labels"))) if cluster.get("labels") else None,
            "sharing": sharing_text(cluster)
            if (cluster.get("sharing") or {}).get("limits")
            else None,
            "owner": _owner(cluster),
            "made for": cluster.get("ownerRun"),
            "capacity": _try(cluster),
            "change": _change(cluster),
            "adopted": _adopted(cluster),
            "arn": cluster.get("arn"),
            "problem": f"[red]{escape(problem['title'])}[/]: {escape(problem['detail'])}"
            if problem
            else None,
            "next step": escape(problem["nextStep"]) if problem else None,
        }
    )


def _try(cluster: Json) -> str | None:
    tries = cluster.get("tries") or []
    return f"try {tries[-1]['number']}: {escape(tries[-1]['way'])}" if tries else None


def _adopted(cluster: Json) -> str | None:
    """How far the agent is on the nodes of a cluster that others made, and what stayed there."""
    adoption = cluster.get("adoption")
    if not adoption:
        return None
    nodes = adoption.get("nodes") or {}
    states = Counter(node.get("state") for node in nodes.values())
    words = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    failed = [f"{key}: {node['reason']}" for key, node in nodes.items() if node.get("reason")]
    return escape("; ".join([words or "no nodes", *failed[:3], *(adoption.get("left") or [])]))


def _change(cluster: Json) -> str | None:
    change = cluster.get("change")
    if not change:
        return None
    what = "update" if change.get("spec") else f"fleet {change.get('fleet')}"
    words = f"{what}: {change.get('state')}"
    return escape(f"{words}. {change['reason']}" if change.get("reason") else words)

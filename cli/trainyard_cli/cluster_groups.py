"""The groups of nodes of a cluster's spec, as the API shows it, whatever backend it is of.

It reads what it knows and passes over the rest: a newer control plane may show more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

Json = dict[str, Any]


class Group(NamedTuple):
    """`number` nodes for jobs, or people; `spares` stand by."""

    name: str
    role: str
    number: int
    spares: int
    instance_type: str


def groups_listed(cluster: Json) -> list[Group]:
    """Of a cluster in a list, which has its groups and no spec; older versions send the spec."""
    if "groups" not in cluster:
        return groups_of(cluster.get("spec") or {})
    return [
        Group(one["name"], one["role"], one["count"], one["spares"], one["instanceType"])
        for one in cluster["groups"]
    ]


def groups_of(spec: Json) -> list[Group]:
    """[] where the spec has none, or they are of a backend that is newer than this program."""
    if "queues" in spec:
        return _of_queues(spec)
    return [
        Group(
            group["name"],
            group.get("role", ""),
            group["count"],
            group.get("spares", 0),
            group.get("instanceType", ""),
        )
        for group in spec.get("instanceGroups") or []
    ]


def nodes_of(groups: Sequence[Group]) -> int:
    """All nodes that there may be."""
    return sum(group.number + group.spares for group in groups)


def _of_queues(spec: Json) -> list[Group]:
    """A queue has up to `max` nodes."""
    head = Group("HeadNode", "controller", 1, 0, spec["headNode"]["instanceType"])
    queues = [
        Group(queue["name"], "worker", queue["max"], 0, ", ".join(queue["instanceTypes"]))
        for queue in spec["queues"]
    ]
    pools = [
        Group(pool["name"], "login", pool["count"], 0, pool["instanceType"])
        for pool in spec.get("loginNodes") or []
    ]
    return [head, *queues, *pools]

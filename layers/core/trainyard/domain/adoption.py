"""What a cluster of others must be to be adopted, and which of its nodes wait for the agent. Pure.

A cluster that was adopted is never deleted, replaced or changed by its record alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from trainyard.domain.errors import FieldError, InvalidRequest
from trainyard.domain.records import AdoptedNode, Adoption, Cluster, ClusterNode
from trainyard.domain.states import BackendStatus, NodeState
from trainyard_contracts.adopting import AdoptSpec

#: Nodes of a cluster that is adopted: each is asked by a session of its own, and AWS starts three a
#: second.
MOST_NODES = 256
#: A node of an adopted cluster that failed is asked again after this, and after twice as long each
#: time.
AGAIN_SECONDS = 10
#: After so many failures nobody waits for a worker, and an adoption whose controller fails so often
#: is given up.
TRIES = 3
#: An installation that was begun is looked at again after this.
LOOK_SECONDS = 5
#: A node with our agent whose agent is not linked for so long is asked again: it may have lost its
#: disk, as with an update of its software.
SILENT_SECONDS = 300
#: So long after it was asked a node may still begin with what it was asked for.
UNDER_WAY_SECONDS = 60

Role = Literal["controller", "worker", "login"]


@dataclass(frozen=True)
class ForeignGroup:
    """Nodes of one kind, as AWS describes them; None: AWS does not say."""

    name: str
    instance_type: str
    count: int
    role: Role | None = None
    partition: str | None = None
    execution_role: str = ""


@dataclass(frozen=True)
class Mount:
    """The FSx for Lustre filesystem that AWS mounts on the nodes."""

    dns_name: str
    mount_name: str
    mount_path: str


@dataclass(frozen=True)
class ForeignCluster:
    """A cluster as AWS describes it. `ours` says why it is no cluster of others; '' if it is."""

    backend: str
    arn: str
    name: str
    status: BackendStatus
    said: str
    groups: Sequence[ForeignGroup]
    mount: Mount | None = None
    repairs_itself: bool = True
    slurm: bool = True
    ours: str = ""
    #: Its owners let this stack replace nodes; how they do so, in words.
    replaceable: bool = False
    consent: str = ""
    roles: Collection[str] = field(default_factory=tuple)


def check(asked: AdoptSpec, seen: ForeignCluster) -> None:
    """Raises InvalidRequest with everything that stands against it."""
    if found := list(_problems(asked, seen)):
        detail = "; ".join(f"{one.field}: {one.message}" for one in found)
        raise InvalidRequest(detail, errors=found)


def role_of(asked: AdoptSpec, group: ForeignGroup) -> Role:
    if group.name == asked.controller_group:
        return "controller"
    if group.name in asked.login_groups:
        return "login"
    return group.role or "worker"


def partition_of(asked: AdoptSpec, group: ForeignGroup) -> str | None:
    return asked.partitions.get(group.name) or group.partition


def _problems(asked: AdoptSpec, seen: ForeignCluster) -> Iterator[FieldError]:
    named = "arn" if asked.arn else "name"
    if seen.ours:
        yield FieldError(named, seen.ours)
    if not seen.slurm:
        yield FieldError(named, "is orchestrated by EKS; only clusters with Slurm can be adopted")
    if seen.status != BackendStatus.IN_SERVICE:
        yield FieldError(named, f"is {seen.said}; only a cluster that is InService can be adopted")
    if (nodes := sum(group.count for group in seen.groups)) > MOST_NODES:
        yield FieldError(named, f"has {nodes} nodes; at most {MOST_NODES} can be adopted")
    yield from _group_problems(asked, seen)
    if asked.shared_dir is None and seen.mount is None:
        yield FieldError(
            "sharedDir",
            "is needed, for AWS names no FSx for Lustre filesystem of this cluster; give the "
            "directory that every node has mounted, such as /fsx",
        )
    if asked.allow.replace_nodes and not seen.replaceable:
        yield FieldError("allow.replaceNodes", seen.consent)


def _group_problems(asked: AdoptSpec, seen: ForeignCluster) -> Iterator[FieldError]:
    names = {group.name for group in seen.groups}
    there = ", ".join(sorted(names)) or "none"
    given = {
        "controllerGroup": [asked.controller_group] if asked.controller_group else [],
        "loginGroups": asked.login_groups,
        "partitions": list(asked.partitions),
    }
    for field_name, groups in given.items():
        for unknown in [group for group in groups if group not in names]:
            yield FieldError(field_name, f"the cluster has no group '{unknown}'; it has: {there}")
    roles = [role_of(asked, group) for group in seen.groups if group.count]
    if (controllers := roles.count("controller")) != 1:
        yield FieldError(
            "controllerGroup",
            f"is needed, for AWS calls {controllers or 'none'} of its groups "
            f"Controller; give the one of Slurm's controller; the cluster has: {there}",
        )
    for group in seen.groups:
        controller = role_of(asked, group) == "controller"
        if controller and group.count > 1:
            words = f"group '{group.name}' has {group.count} nodes; a controller group has one"
            yield FieldError("controllerGroup", words)
    if "worker" not in roles:
        yield FieldError("loginGroups", "the cluster has no nodes besides that run jobs")
    for group in seen.groups:
        worker = group.count and role_of(asked, group) == "worker"
        if worker and not partition_of(asked, group):
            yield FieldError(
                f"partitions.{group.name}",
                "is needed, for AWS does not say it; give the Slurm partition of these nodes, as "
                "sinfo on the cluster shows it, or name the group in loginGroups",
            )


def due(
    adoption: Adoption, nodes: Sequence[ClusterNode], linked: Collection[str], now: datetime
) -> list[ClusterNode]:
    """The nodes that are to be asked for the agent now, the controller before all others."""
    running = [node for node in nodes if node.status == NodeState.RUNNING]
    wanting = [node for node in running if _wants(adoption, node, linked, now)]
    first = [node for node in running if node.role == "controller"]
    ready = [node for node in first if _state(adoption, node) == "installed"]
    return wanting if ready else [node for node in wanting if node in first]


def _wants(adoption: Adoption, node: ClusterNode, linked: Collection[str], now: datetime) -> bool:
    known = adoption.nodes.get(node.instance_id)
    if known is None:
        return True
    if known.state == "installed":
        silent = node.instance_id not in linked
        return silent and now - known.at >= timedelta(seconds=SILENT_SECONDS)
    pause = AGAIN_SECONDS * 2 ** min(known.tries, 6) if known.state == "failed" else LOOK_SECONDS
    return now - known.at >= timedelta(seconds=pause)


def _state(adoption: Adoption, node: ClusterNode) -> str:
    known = adoption.nodes.get(node.instance_id)
    return known.state if known is not None else ""


def lacking(adoption: Adoption, nodes: Sequence[ClusterNode]) -> int:
    """How many nodes the cluster's readiness waits for.

    A worker that failed again and again does not hold up the others.
    """
    return sum(
        _state(adoption, node) != "installed" and not _given_up(adoption, node)
        for node in nodes
        if node.status == NodeState.RUNNING
    )


def _given_up(adoption: Adoption, node: ClusterNode) -> bool:
    known = adoption.nodes.get(node.instance_id)
    return node.role != "controller" and known is not None and known.tries >= TRIES


def refusal(cluster: Cluster, nodes: Sequence[ClusterNode]) -> str | None:
    """Why the adoption cannot succeed: the controller failed again and again."""
    adoption = cluster.adoption
    assert adoption is not None
    for node in nodes:
        known = adoption.nodes.get(node.instance_id)
        if node.role == "controller" and known is not None and known.tries >= TRIES:
            return f"The agent cannot be installed on the controller: {known.reason}"
    return None


def failed(known: AdoptedNode, reason: str, now: datetime) -> AdoptedNode:
    return known.changed(state="failed", at=now, tries=known.tries + 1, reason=reason[:1000])


def settled(known: AdoptedNode, now: datetime) -> bool:
    """Whether what was asked of the node long ago can no longer begin there."""
    asked = known.state == "asked"
    return not asked or now - known.at >= timedelta(seconds=UNDER_WAY_SECONDS)

"""A cluster that others made, and whether Trainyard can run jobs on it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from trainyard.domain.errors import FieldError, InvalidRequest
from trainyard.domain.states import BackendStatus
from trainyard_contracts.adopting import AdoptSpec

#: Nodes of a cluster that is adopted: each is asked by a session of its own, and AWS starts three a
#: second.
MOST_NODES = 256
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

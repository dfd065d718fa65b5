"""Gives a cluster's spec the filesystems that it names, or refuses it in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from trainyard.domain.errors import FieldError, FilesystemNotFound, InvalidRequest
from trainyard.domain.filesystem_records import Filesystem, Use
from trainyard.outside.networks import Place
from trainyard.ports import Ports
from trainyard_contracts.cluster_base import ClusterBase

S = TypeVar("S", bound=ClusterBase)


def mounted(ports: Ports, spec: S, prefix: str = "") -> S:
    """The spec with what its filesystems are; nothing is stored.

    Raises InvalidRequest for one that is not there, not Available, or in another network.
    """
    found = _found(ports, spec, prefix)
    return spec.with_filesystems({name: one.mountable for name, one in found.items()})


def attached(ports: Ports, spec: S) -> S:
    """The same for a cluster that is about to be stored under the spec's name.

    Each filesystem notes the cluster first, on condition that nobody began to delete it. Raises
    ConflictError, too, if somebody changes one at this moment.
    """
    found = _found(ports, spec, "")
    for filesystem in found.values():
        ports.filesystems.put(_noted(ports, filesystem, spec.name))
    return spec.with_filesystems({name: one.mountable for name, one in found.items()})


def warnings(ports: Ports, spec: ClusterBase) -> list[str]:
    """What works and costs: nodes in another zone than their filesystem."""
    said = []
    for name in spec.named_filesystems().values():
        filesystem = ports.filesystems.get(name)
        places = ports.networks.places(_subnets(ports, spec))
        far = sorted({place.zone for place in places.values()} - {filesystem.zone})
        if far and filesystem.zone:
            said.append(
                f"Filesystem '{name}' lies in {filesystem.zone}, and nodes may be in "
                f"{' and '.join(far)}: from there it is slower, and AWS bills the traffic."
            )
    return said


def _found(ports: Ports, spec: ClusterBase, prefix: str) -> dict[str, Filesystem]:
    found = {}
    for field, name in spec.named_filesystems().items():
        try:
            filesystem = ports.filesystems.get(name)
        except FilesystemNotFound:
            words = (
                f"no filesystem is named '{name}'; list them with 'trainyard filesystem ls' "
                "(GET /v1/filesystems)"
            )
            raise _refused(prefix + field, words) from None
        if filesystem.status != "Available":
            words = (
                f"filesystem '{name}' is {filesystem.status}; wait until it is Available, or "
                f"look at it: trainyard filesystem show {name}"
            )
            raise _refused(prefix + field, words)
        _check_network(ports, spec, filesystem, prefix + field)
        found[name] = filesystem
    return found


def _check_network(ports: Ports, spec: ClusterBase, filesystem: Filesystem, field: str) -> None:
    subnets = _subnets(ports, spec)
    if not subnets:
        return
    places = ports.networks.places(subnets)
    unknown = [subnet for subnet in subnets if subnet not in places]
    if unknown:
        raise _refused(
            field, f"AWS has no subnet {unknown[0]} in this region; correct the cluster's subnets"
        )
    if far := _elsewhere(list(places.items()), filesystem.vpc):
        subnet, place = far
        raise _refused(
            field,
            f"filesystem '{filesystem.name}' lies in {filesystem.vpc}, and subnet {subnet} in "
            f"{place.vpc}; use subnets of the same network",
        )


def _elsewhere(places: Sequence[tuple[str, Place]], vpc: str) -> tuple[str, Place] | None:
    return next(((name, place) for name, place in places if place.vpc != vpc), None)


def _subnets(ports: Ports, spec: ClusterBase) -> Sequence[str]:
    return spec.mounting_subnets or ports.config.subnet_ids


def _noted(ports: Ports, filesystem: Filesystem, cluster: str) -> Filesystem:
    others = [use for use in filesystem.uses if use.cluster != cluster]
    use = Use(cluster=cluster, at=ports.clock.now())
    return filesystem.changed(uses=[*others, use])


def _refused(field: str, words: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {words}", errors=[FieldError(field, words)])

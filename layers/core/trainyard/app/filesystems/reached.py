"""Filesystems of FSx that nodes mount by their ids: in the nodes' own network and zone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainyard.domain.errors import FieldError, InvalidRequest
from trainyard.outside.networks import Place
from trainyard.ports import Ports
from trainyard_contracts.cluster_base import ClusterBase


@dataclass(frozen=True)
class _Reached:
    """One of them, where it is, and where each subnet of the nodes is."""

    field: str
    fsx_id: str
    place: Place
    subnets: dict[str, Place]

    @property
    def zones(self) -> set[str]:
        return {place.zone for place in self.subnets.values()}

    @property
    def is_far(self) -> bool:
        """Whether every node would reach it from another zone, as far as that is known."""
        return bool(self.place.zone and self.zones) and self.place.zone not in self.zones


def check_reached(ports: Ports, spec: ClusterBase, prefix: str) -> None:
    """Raises InvalidRequest for one that no node would reach, and for one that is not there or that
    all would reach from another zone, if the backend says nothing of that by itself.
    """
    for one in _all(ports, spec, prefix):
        far = next(((n, p) for n, p in one.subnets.items() if p.vpc != one.place.vpc), None)
        if far is not None and one.place.vpc:
            subnet, place = far
            raise _wrong(
                one.field,
                f"filesystem {one.fsx_id} lies in {one.place.vpc}, and subnet {subnet} of "
                f"{spec.subnet_fields} in {place.vpc}; use subnets of the same network",
            )
        if one.is_far and not spec.filesystems_are_looked_at:
            raise _wrong(
                one.field,
                f"filesystem {one.fsx_id} lies in {one.place.zone}, and all of "
                f"{spec.subnet_fields} in {' and '.join(sorted(one.zones))}; use a subnet in "
                f"{one.place.zone}, since reads from another zone are slow and billed",
            )


def warnings(ports: Ports, spec: ClusterBase) -> list[str]:
    """What works and costs: nodes in another zone."""
    return [
        f"Filesystem {one.fsx_id} lies in {one.place.zone}, and "
        f"{'all nodes are' if one.is_far else 'nodes may be'} in "
        f"{' and '.join(sorted(one.zones - {one.place.zone}))}: from there it is slower, and AWS "
        "bills the traffic."
        for one in _all(ports, spec, "")
        if one.place.zone and one.zones - {one.place.zone}
    ]


def _all(ports: Ports, spec: ClusterBase, prefix: str) -> Iterator[_Reached]:
    """Raises InvalidRequest for one that is not there."""
    for field, fsx_id in spec.reached_filesystems().items():
        seen = ports.lustre.describe(fsx_id)
        if seen is None and spec.filesystems_are_looked_at:
            continue
        if seen is None:
            words = (
                f"AWS has no FSx filesystem {fsx_id} in this region; list them with 'aws fsx "
                "describe-file-systems'"
            )
            raise _wrong(prefix + field, words)
        own_subnets = spec.mounting_subnets
        wanted = [*own_subnets, *filter(None, [seen.subnet])]
        places = ports.networks.places(wanted) if wanted else {}
        own = places.get(seen.subnet)
        subnets = {name: places[name] for name in own_subnets if name in places}
        place = Place(seen.vpc, own.zone if own else "")
        yield _Reached(prefix + field, fsx_id, place, subnets)


def _wrong(field: str, words: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {words}", errors=[FieldError(field, words)])

"""In which zones the nodes of a spec may be, and whether another way may leave them."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.domain.errors import FieldError, InvalidRequest
from trainyard.ports import Ports
from trainyard_contracts.cluster_base import ClusterBase


def zones_of(ports: Ports, subnets: Sequence[str]) -> list[str]:
    """Those of the subnets that AWS has; by zone, in order."""
    if not subnets:
        return []
    return sorted({place.zone for place in ports.networks.places(subnets).values()})


def check_zones(ports: Ports, spec: ClusterBase, prefix: str = "") -> None:
    """Refuse an entry in another zone than the filesystem, unless it says that it may.

    Where the filesystem lies, the subnets of the rest of the spec say. Raises InvalidRequest.
    """
    moving = [entry for entry in spec.capacity if entry.subnet_ids and not entry.may_leave_zone]
    if not spec.zonal or not moving:
        return
    usual = spec.changed(capacity=[]).subnets or ports.config.subnet_ids
    home = zones_of(ports, usual)
    for number, entry in enumerate(spec.capacity):
        far = sorted({*zones_of(ports, entry.subnet_ids or [])} - {*home})
        if home and far and not entry.may_leave_zone:
            words = (
                f"lie in {' and '.join(far)}, and the rest of the spec with its filesystem in "
                f"{' and '.join(home)}; use subnets of that zone, or set mayLeaveZone true: from "
                "another zone the filesystem is slower, and AWS bills the traffic"
            )
            field = f"{prefix}capacity.{number}.subnetIds"
            raise InvalidRequest(f"{field}: {words}", errors=[FieldError(field, words)])

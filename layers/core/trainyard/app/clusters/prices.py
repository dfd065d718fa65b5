"""What an hour of a cluster costs, and who says so."""

from __future__ import annotations

from typing import Literal

from trainyard.ports import Ports
from trainyard_contracts.cluster_base import ClusterBase


def price_of(ports: Ports, spec: ClusterBase) -> tuple[float | None, Literal["list", "given", ""]]:
    """In USD, with who says so: a person's own word comes before the price list's."""
    if spec.hourly_usd is not None:
        return spec.hourly_usd, "given"
    listed = ports.prices.hourly_usd(spec, ports.backend(spec).product)
    return (listed, "list") if listed is not None else (None, "")

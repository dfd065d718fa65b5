"""What an hour of a cluster costs, and who says so."""

from __future__ import annotations

from typing import Literal

from trainyard.ports import Ports
from trainyard_contracts.cluster_base import ClusterBase


def price_of(ports: Ports, spec: ClusterBase) -> tuple[float | None, Literal["list", "given", ""]]:
    """In USD, with who says so: a person's own word comes before the price list's."""
    if spec.hourly_usd is not None:
        return spec.hourly_usd, "given"
    listed = listed_price(ports, spec)
    return (listed, "list") if listed is not None else (None, "")


def listed_price(ports: Ports, spec: ClusterBase) -> float | None:
    """By AWS's price list, whatever anybody says; None where it does not say."""
    return ports.prices.hourly_usd(spec, ports.backend(spec).product)

"""Figures for dashboards, and prices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from trainyard.outside.seen_clusters import Product
from trainyard_contracts.cluster_base import ClusterBase
from trainyard_contracts.filesystems import FilesystemSpec

MetricUnit = Literal["Count", "Seconds"]


class Metrics(Protocol):
    """Figures for dashboards and alarms. A figure may be lost with the process that has it."""

    def put(self, name: str, value: float, unit: MetricUnit = "Count", **dimensions: str) -> None:
        """One figure of now. Never raises: nothing waits for a figure."""
        ...


class Prices(Protocol):
    def hourly_usd(self, spec: ClusterBase, product_of: Callable[[str], Product]) -> float | None:
        """On-demand price of the whole cluster per hour, or None if the price list does not say.

        `product_of` gives the product of an instance type; it is the backend's.
        """
        ...

    def monthly_usd(self, spec: FilesystemSpec) -> float | None:
        """Price of the filesystem for a month, or None if the price list does not say."""
        ...

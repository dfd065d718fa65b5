"""Subnets, and where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class Place(NamedTuple):
    """Where a subnet is."""

    vpc: str
    zone: str


class Networks(Protocol):
    def places(self, subnet_ids: Sequence[str]) -> Mapping[str, Place]:
        """Where each subnet is; one that there is not is left out."""
        ...

"""What a cluster costs per hour on demand and a filesystem per month, by AWS's price list.

None where the list does not say; the log says why.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trainyard.aws.refusals import translated
from trainyard.domain import errors
from trainyard.outside.seen_clusters import Product
from trainyard_contracts.cluster_base import ClusterBase
from trainyard_contracts.filesystems import FilesystemSpec

_LOG = logging.getLogger(__name__)
_HOURLY = frozenset({"Hrs", "Hours", "hours"})
_MONTHLY = frozenset({"GB-Mo", "GB-month"})


class PriceList:
    """The port `Prices` on the Price List API, which is in us-east-1 for every region."""

    def __init__(self, pricing: Any, region: str) -> None:
        self._pricing = pricing
        self._region = region
        self._known: dict[tuple[str, str], float] = {}

    def hourly_usd(self, spec: ClusterBase, product_of: Callable[[str], Product]) -> float | None:
        total = 0.0
        for group in spec.groups():
            if not group.on_demand:
                _LOG.warning(
                    "no price for cluster %s: group %s is not on demand", spec.name, group.name
                )
                return None
            try:
                price = self._price(product_of(group.instance_type))
            except errors.TrainyardError as error:
                _LOG.warning("no price for cluster %s: %s", spec.name, error.detail)
                return None
            if price is None:
                _LOG.warning(
                    "no price for cluster %s: the price list has no %s for clusters in %s",
                    spec.name,
                    group.instance_type,
                    self._region,
                )
                return None
            total += price * (group.count + group.spares)
        return round(total, 4)

    def monthly_usd(self, spec: FilesystemSpec) -> float | None:
        """One price only is believed: the list names no deployment type of Lustre."""
        try:
            listed = self._listed("AmazonFSx", {"fileSystemType": "Lustre", "storageType": "SSD"})
        except errors.TrainyardError as error:
            _LOG.warning("no price for filesystem %s: %s", spec.name, error.detail)
            return None
        wanted = str(spec.unit_throughput)
        found = {
            price
            for one in listed
            if re.match(r"\d*", _throughput(one))[0] == wanted  # type: ignore[index]
            for price in _on_demand(one, _MONTHLY)
        }
        if len(found) != 1:
            _LOG.warning("no price for filesystem %s: the list has %d", spec.name, len(found))
            return None
        return round(found.pop() * spec.storage_gib, 2)

    def _price(self, product: Product) -> float | None:
        key = (product.service, product.usage_type)
        if key not in self._known:
            found = next(self._prices(product), None)
            if found is None:
                return None
            self._known[key] = found
        return self._known[key]

    def _prices(self, product: Product) -> Iterator[float]:
        for filters in product.filters:
            for listed in self._listed(product.service, filters):
                attributes = listed.get("product", {}).get("attributes", {})
                if re.fullmatch(product.usage_type, str(attributes.get("usagetype", ""))):
                    yield from _on_demand(listed)

    def _listed(self, service: str, filters: Mapping[str, str]) -> list[dict[str, Any]]:
        terms = [
            {"Type": "TERM_MATCH", "Field": name, "Value": value}
            for name, value in {"regionCode": self._region, **filters}.items()
        ]
        with translated("read the price list"):
            answer = self._pricing.get_products(ServiceCode=service, Filters=terms, MaxResults=100)
        return [json.loads(text) for text in answer.get("PriceList", [])]


def _throughput(product: dict[str, Any]) -> str:
    return str(product.get("product", {}).get("attributes", {}).get("throughputCapacity", ""))


def _on_demand(product: dict[str, Any], units: frozenset[str] = _HOURLY) -> Iterator[float]:
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            if dimension.get("unit") in units:
                yield float(dimension["pricePerUnit"]["USD"])

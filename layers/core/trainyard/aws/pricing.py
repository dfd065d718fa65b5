"""What a cluster costs per hour on demand, by AWS's price list; None where the list does not say, and the log says why."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.aws.refusals import translated
from trainyard.domain import errors
from trainyard_contracts.specs import ClusterSpec

_LOG = logging.getLogger(__name__)


class PriceList:
    """The port `Prices` on the Price List API (which lives in us-east-1 whatever the region priced)."""

    def __init__(self, pricing: Any, region: str) -> None:
        self._pricing = pricing
        self._region = region
        self._known: dict[str, float] = {}

    def hourly_usd(self, spec: ClusterSpec) -> float | None:
        total = 0.0
        for group in spec.instance_groups:
            try:
                price = self._price(group.instance_type)
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

    def _price(self, instance_type: str) -> float | None:
        if instance_type not in self._known:
            found = next(
                (
                    price
                    for product in self._products(instance_type)
                    for price in _on_demand(product)
                ),
                None,
            )
            if found is None:
                return None
            self._known[instance_type] = found
        return self._known[instance_type]

    def _products(self, instance_type: str) -> Iterator[dict[str, Any]]:
        """Products of the type that are billed as cluster usage (usage type '<region>-Cluster:<type>', and not '-ReservedCluster:<type>').

        They carry the type as instanceName, or as instanceType with a suffix: which of the two they have is not documented.
        """
        usage = re.compile(rf"(?:.*-)?Cluster:{re.escape(instance_type)}")
        for field, value in (
            ("instanceName", instance_type),
            ("instanceType", f"{instance_type}-Cluster"),
        ):
            for product in self._listed({"regionCode": self._region, field: value}):
                if usage.fullmatch(
                    str(product.get("product", {}).get("attributes", {}).get("usagetype", ""))
                ):
                    yield product

    def _listed(self, filters: Mapping[str, str]) -> list[dict[str, Any]]:
        terms = [
            {"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in filters.items()
        ]
        with translated("read the price list"):
            answer = self._pricing.get_products(
                ServiceCode="AmazonSageMaker", Filters=terms, MaxResults=100
            )
        return [json.loads(text) for text in answer.get("PriceList", [])]


def _on_demand(product: dict[str, Any]) -> Iterator[float]:
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            if dimension.get("unit") in ("Hrs", "Hours", "hours"):
                yield float(dimension["pricePerUnit"]["USD"])

"""Whether the price list names nodes of clusters as we look for them."""

from __future__ import annotations

import json

from ..register import look
from ..verdicts import Seen, broken, held
from ..world import World

PRICE_LIST_REGION = "us-east-1"


@look("A-025", after="price")
def nodes_of_clusters_are_in_the_price_list(world: World) -> Seen:
    hourly = (world.plan or {}).get("hourlyUsd")
    if hourly is not None:
        return held("A-025", f"the dry run found {hourly:.2f} USD an hour in the price list")
    types = sorted({group["instanceType"] for group in world.cluster_spec["instanceGroups"]})
    listed = {kind: _usage_types(world, kind) for kind in types}
    told = "; ".join(f"{kind}: {', '.join(usage) or 'nothing'}" for kind, usage in listed.items())
    return broken(
        "A-025",
        f"the dry run found no price; the price list has {told}",
        (
            "Look the type up on the SageMaker pricing page, and correct "
            "backends/hyperpod/prices.py by the usage types above; "
            "--max-usd refuses what it cannot price"
        ),
    )


def _usage_types(world: World, instance_type: str) -> list[str]:
    filters = {"regionCode": world.account.region, "instanceName": instance_type}
    terms = [
        {"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in filters.items()
    ]
    page = world.account.call(
        "pricing",
        "GetProducts",
        region=PRICE_LIST_REGION,
        ServiceCode="AmazonSageMaker",
        Filters=terms,
        MaxResults=100,
    )
    products = [json.loads(text) for text in page.get("PriceList") or []]
    return sorted({str(product["product"]["attributes"].get("usagetype")) for product in products})

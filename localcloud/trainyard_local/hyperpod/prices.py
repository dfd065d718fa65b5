"""The price list's GetProducts, in AWS's shape.

Nodes of the local cloud cost nothing, unless a quirk gives them a price.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

from sam_on_moto.iam.access import Denied
from sam_on_moto.iam.signatures import Rejected, SignedRequest, verify
from sam_on_moto.wire.messages import Request, Response
from trainyard_local.local_cloud import LocalCloud

SERVICE, TARGET = "pricing", "AWSPriceListService.GetProducts"
#: The price list lives in few regions, whatever region it is asked about.
REGION = "us-east-1"


def answer(cloud: LocalCloud, request: Request) -> Response:
    """Answer one request that is signed for the price list."""
    signed = SignedRequest(
        request.method, cloud.endpoint + request.raw_path, request.headers, request.body
    )
    try:
        principal = verify(
            signed,
            cloud.access.principal,
            region=REGION,
            service=SERVICE,
            now=datetime.now(timezone.utc),
        )
        cloud.access.require(principal, "pricing:GetProducts", "*")
    except (Rejected, Denied) as refused:
        return _answer(400, {"__type": "AccessDeniedException", "message": str(refused)})
    if request.headers.get("x-amz-target") != TARGET:
        message = (
            f"the local cloud does not do {request.headers.get('x-amz-target')}; "
            "of the price list it does GetProducts"
        )
        return _answer(501, {"__type": "NotImplemented", "message": message})
    wanted = {
        given["Field"]: given["Value"] for given in json.loads(request.body).get("Filters", [])
    }
    if wanted.keys() not in ({"regionCode", "instanceName"}, {"regionCode", "instanceType"}):
        message = (
            "the local cloud finds products by regionCode and instanceName or instanceType; "
            f"the filters are {sorted(wanted)}"
        )
        return _answer(501, {"__type": "NotImplemented", "message": message})
    instance = wanted.get("instanceName")
    products = _products(cloud, wanted["regionCode"], instance) if instance else []
    return _answer(200, {"FormatVersion": "aws_v1", "PriceList": products})


def _products(cloud: LocalCloud, region: str, instance: str) -> list[str]:
    usage = "Nodes" if "prices-have-other-usage-types" in cloud.quirks else "Cluster"
    usd = 1.0 if "nodes-cost-a-dollar" in cloud.quirks else 0.0
    return [json.dumps(_product(region, instance, kind, usd)) for kind in ("Studio", usage)]


def _product(region: str, instance: str, kind: str, usd: float) -> dict[str, Any]:
    attributes = {
        "servicecode": "AmazonSageMaker",
        "regionCode": region,
        "instanceName": instance,
        "usagetype": f"USE1-{kind}:{instance}",
    }
    dimension = {
        "unit": "Hrs",
        "pricePerUnit": {"USD": f"{usd:.10f}"},
        "beginRange": "0",
        "endRange": "Inf",
    }
    on_demand = {
        "LOCAL.JRTCKXETXF": {"priceDimensions": {"LOCAL.JRTCKXETXF.6YS6EN2CT7": dimension}}
    }
    return {
        "product": {"productFamily": "ML Instance", "attributes": attributes},
        "serviceCode": "AmazonSageMaker",
        "terms": {"OnDemand": on_demand},
    }


def _answer(status: int, body: Any) -> Response:
    return Response(
        status, [("Content-Type", "application/x-amz-json-1.1")], json.dumps(body).encode()
    )

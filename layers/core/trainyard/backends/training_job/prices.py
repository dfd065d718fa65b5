"""Where AWS's price list says what a node of a training job costs."""

from __future__ import annotations

import re

from trainyard.outside.seen_clusters import Product


def product(instance_type: str) -> Product:
    """Billed as '<region>-Train:<type>', such as 'USE1-Train:ml.m5.large', on demand.

    Products carry the type as instanceName, or as instanceType with a suffix: both were seen in
    code that asks the price list. Spot's discount and warm pools are not in this price.
    """
    return Product(
        service="AmazonSageMaker",
        filters=({"instanceName": instance_type}, {"instanceType": f"{instance_type}-Training"}),
        usage_type=rf"(?:.*-)?Train:{re.escape(instance_type)}",
    )

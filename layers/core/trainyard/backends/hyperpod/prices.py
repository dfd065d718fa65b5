"""Where AWS's price list says what a node of a HyperPod cluster costs."""

from __future__ import annotations

import re

from trainyard.outside.seen_clusters import Product


def product(instance_type: str) -> Product:
    """Billed as cluster usage: '<region>-Cluster:<type>', and not '-ReservedCluster:<type>'.

    Products carry the type as instanceName, or as instanceType with a suffix: which of the two they
    have is not documented.
    """
    return Product(
        service="AmazonSageMaker",
        filters=({"instanceName": instance_type}, {"instanceType": f"{instance_type}-Cluster"}),
        usage_type=rf"(?:.*-)?Cluster:{re.escape(instance_type)}",
    )

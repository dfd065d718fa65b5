"""Where AWS's price list says what a node of a ParallelCluster cluster costs: as any EC2 instance.

ParallelCluster itself is free. A spot node or one of a capacity block costs less or was paid for
already: the list's price is an upper bound there.
"""

from __future__ import annotations

import re

from trainyard.outside.seen_clusters import Product


def product(instance_type: str) -> Product:
    """Linux, on demand, in shared tenancy, with nothing installed: '<region>-BoxUsage:<type>'.

    us-east-1 has no prefix. Attributes as the Price List API lists them for AmazonEC2.
    """
    return Product(
        service="AmazonEC2",
        filters=(
            {
                "instanceType": instance_type,
                "operatingSystem": "Linux",
                "tenancy": "Shared",
                "preInstalledSw": "NA",
                "capacitystatus": "Used",
            },
        ),
        usage_type=rf"(?:.*-)?BoxUsage:{re.escape(instance_type)}",
    )

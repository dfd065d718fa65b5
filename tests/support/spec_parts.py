"""A small cluster's spec, and the parts of it that every one needs and that no test is about."""

from __future__ import annotations

from typing import Any

NETWORK = {"subnetIds": ["subnet-0123456789abcdef0"], "securityGroupIds": ["sg-0123456789abcdef0"]}
FILESYSTEM = {
    "dnsName": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
    "mountName": "abcdefgh",
}
ON_FSX = {"network": NETWORK, "sharedFilesystem": FILESYSTEM}


def cluster_spec(
    name: str = "demo", *, workers: int = 1, spares: int = 0, **more: Any
) -> dict[str, Any]:
    """A cluster of one controller and some workers, as a client writes it."""
    groups = [
        {"name": "controller", "role": "controller", "instanceType": "ml.m5.large", "count": 1},
        {
            "name": "workers",
            "role": "worker",
            "instanceType": "ml.m5.large",
            "count": workers,
            "spares": spares,
        },
    ]
    return {
        "name": name,
        "instanceGroups": groups,
        "environment": {"kind": "existing"},
        "nodeRecovery": "None",
        **ON_FSX,
        **more,
    }

"""Specs for ParallelCluster, and what a deployment adds to them, for tests without any server."""

from __future__ import annotations

from typing import Any

from trainyard.backends.parallelcluster.making import Making, ParallelClusterSettings
from trainyard_contracts.parallelcluster import ParallelClusterSpec

Json = dict[str, Any]
HEAD_SUBNET, SUBNET = "subnet-0123456789abcdef0", "subnet-0123456789abcdef1"
OTHER_SUBNET = "subnet-0123456789abcdef2"
BLOCK = "cr-0123456789abcdef0"
SETTINGS = ParallelClusterSettings(
    stage="prod",
    region="us-east-1",
    account="111122223333",
    bucket="trainyard-prod-1",
    event_bus="trainyard-prod",
    secret_prefix="trainyard/prod",
    node_boundary_arn="arn:aws:iam::111122223333:policy/prod-boundary",
)


def spec(**changes: Any) -> Json:
    """The smallest; `queue`, `head` and `fsx` change what they name."""
    queue, head = changes.pop("queue", {}), changes.pop("head", {})
    fsx = changes.pop("fsx", {"capacityGib": 1200})
    return {
        "name": "demo",
        "backend": "parallelcluster",
        "headNode": {"instanceType": "c5.xlarge", "subnetId": HEAD_SUBNET, **head},
        "queues": [
            {
                "name": "workers",
                "instanceTypes": ["c5.xlarge"],
                "max": 4,
                "subnetIds": [SUBNET],
                **queue,
            }
        ],
        "sharedStorage": [{"name": "scratch", "mountPath": "/fsx", "fsx": fsx}],
        **changes,
    }


RICH: Json = {
    "name": "llm-pretrain",
    "backend": "parallelcluster",
    "image": {"os": "ubuntu2404", "customAmi": "ami-0123456789abcdef0"},
    "headNode": {
        "instanceType": "g4dn.xlarge",
        "subnetId": HEAD_SUBNET,
        "rootVolumeGib": 500,
        "keyName": "ada",
        "sshFrom": "10.0.0.0/8",
        "dcv": True,
        "dcvFrom": "10.1.0.0/16",
        "scripts": [{"source": "s3://tools/head.sh"}],
    },
    "queues": [
        {
            "name": "gpus",
            "instanceTypes": ["p5.48xlarge"],
            "capacity": "capacityBlock",
            "capacityReservationId": BLOCK,
            "min": 16,
            "max": 16,
            "subnetIds": [SUBNET],
            "efa": True,
            "localScratch": True,
            "gpuHealthCheck": True,
            "rootVolumeGib": 200,
            "scripts": [{"source": "https://example.com/x.sh", "arguments": ["2.20", "a b"]}],
        },
        {
            "name": "spot",
            "instanceTypes": ["g5.xlarge", "g4dn.xlarge"],
            "capacity": "spot",
            "spotPrice": 0.5,
            "allocationStrategy": "priceCapacityOptimized",
            "max": 8,
            "subnetIds": [SUBNET, OTHER_SUBNET],
            "multithreading": False,
            "customAmi": "ami-0123456789abcdef1",
        },
        {
            "name": "trainium",
            "instanceTypes": ["trn1.32xlarge"],
            "capacityReservationGroup": (
                "arn:aws:resource-groups:us-east-1:111122223333:group/trainium"
            ),
            "min": 2,
            "max": 4,
            "subnetIds": [SUBNET],
            "efa": True,
            "neuron": True,
        },
    ],
    "loginNodes": [
        {"name": "door", "instanceType": "c5.large", "count": 2, "subnetId": HEAD_SUBNET}
    ],
    "sharedStorage": [
        {
            "name": "runs",
            "mountPath": "/fsx",
            "fsx": {"fileSystemId": "fs-0123456789abcdef0"},
        },
        {"name": "home", "mountPath": "/shared", "efs": {"keep": True}},
        {"name": "tools", "mountPath": "/tools", "ebs": {"sizeGib": 50}},
    ],
    "s3Access": [{"bucket": "corpus", "prefix": "out", "write": True}],
    "s3Mounts": [{"bucket": "corpus", "mountPath": "/corpus", "prefix": "tokens/v1"}],
    "jobInputs": ["s3://images/train/"],
    "jobSecrets": ["team/token"],
    "iamPolicies": ["arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"],
    "users": [{"name": "ada", "uid": 2001, "sshKeys": ["ssh-ed25519 AAAA ada@example.com"]}],
    "tags": {"team": "research"},
}


def making(given: Json = RICH, generation: int = 3) -> Making:
    read = ParallelClusterSpec.model_validate(given)
    return Making(read, generation, {**read.tags, "trainyard:cluster": read.name}, SETTINGS)

"""Specs that are right, spread over all that a spec can say; each is one configuration to try."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.parallelcluster.cloud import BUCKET, Places
from tests.parallelcluster.servers.reservations import BLOCK, TRAINIUM

Json = dict[str, Any]
Change = Callable[[Places], Json]
SCRATCH: Json = {"name": "scratch", "mountPath": "/fsx", "fsx": {"capacityGib": 1200}}
SCRIPT = f"s3://{BUCKET}/scripts/one.sh"
READ_ONLY = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"


def spec(places: Places, **changes: Any) -> Json:
    """The smallest one; `queue` changes its queue, `head` its head node."""
    queue = changes.pop("queue", {})
    head = changes.pop("head", {})
    return {
        "name": "demo",
        "backend": "parallelcluster",
        "headNode": {"instanceType": "c5.xlarge", "subnetId": places.head_subnet, **head},
        "queues": [
            {
                "name": "workers",
                "instanceTypes": ["c5.xlarge"],
                "max": 4,
                "subnetIds": [places.subnet],
                **queue,
            }
        ],
        "sharedStorage": [SCRATCH],
        **changes,
    }


def _queue(**changes: Any) -> Change:
    return lambda places: {"queue": changes}


def _fsx(**settings: Any) -> Change:
    return lambda places: {"sharedStorage": [{**SCRATCH, "fsx": settings}]}


def _shared(**settings: Any) -> Change:
    return lambda places: {"sharedStorage": [{"name": "s", "mountPath": "/shared", **settings}]}


def _two_queues(places: Places, **second: Any) -> Json:
    first = {"name": "cpu", "instanceTypes": ["c5.xlarge"], "max": 8, "subnetIds": [places.subnet]}
    other = {"name": "gpu", "instanceTypes": ["g5.xlarge"], "max": 2, "subnetIds": [places.subnet]}
    return {"queues": [first, {**other, **second}]}


def _zones(places: Places, **changes: Any) -> Json:
    queue = {"subnetIds": [places.subnet, places.other_zone, places.third_zone], **changes}
    shared = [{"name": "s", "mountPath": "/fsx", "fsx": {"fileSystemId": places.fsx}}]
    return {"queue": queue, "sharedStorage": shared}


_P5 = {"instanceTypes": ["p5.48xlarge"], "capacity": "capacityBlock", "min": 2, "max": 2}
_SECRETS = {"jobSecrets": ["team/token"], "jobInputs": [f"s3://{BUCKET}/tokens/"]}
_REPOSITORY = {"source": f"s3://{BUCKET}/tokens/", "path": "/tokens"}

ACCEPTED: Mapping[str, Change] = {
    "the smallest": lambda places: {},
    "alinux2023": lambda places: {"image": {"os": "alinux2023"}},
    "ubuntu2404": lambda places: {"image": {"os": "ubuntu2404"}},
    "rhel9": lambda places: {"image": {"os": "rhel9"}},
    "an image of one's own": lambda places: {
        "image": {"os": "ubuntu2204", "customAmi": places.image}
    },
    "an image of a queue": lambda places: {"queue": {"customAmi": places.image}},
    "arm": lambda places: {
        "head": {"instanceType": "m7g.xlarge"},
        "queue": {"instanceTypes": ["c7g.4xlarge"]},
    },
    "a large root volume": lambda places: {"head": {"rootVolumeGib": 500}},
    "a root volume of workers": _queue(rootVolumeGib=200),
    "a key pair and addresses": lambda places: {
        "head": {"keyName": places.key_name, "sshFrom": "10.0.0.0/8"}
    },
    "a desktop": lambda places: {
        "head": {"instanceType": "g4dn.xlarge", "dcv": True, "dcvFrom": "10.0.0.0/8"}
    },
    "spares": _queue(min=2),
    "several types": _queue(instanceTypes=["c5.xlarge", "c5a.xlarge", "c5d.xlarge"]),
    "spot": _queue(capacity="spot"),
    "spot with a price": _queue(capacity="spot", spotPrice=0.08),
    "spot, capacity first": _queue(
        capacity="spot",
        instanceTypes=["c5.xlarge", "m5.xlarge"],
        allocationStrategy="capacityOptimized",
    ),
    "spot, price and capacity": _queue(
        capacity="spot",
        instanceTypes=["c5.xlarge", "m5.xlarge"],
        allocationStrategy="priceCapacityOptimized",
    ),
    "in order of preference": _queue(
        instanceTypes=["c5.xlarge", "m5.xlarge"], allocationStrategy="prioritized"
    ),
    "three zones": _zones,
    "three zones, spot, several types": lambda places: _zones(
        places, capacity="spot", instanceTypes=["c5.xlarge", "m5.xlarge"]
    ),
    "EFA": _queue(instanceTypes=["p4d.24xlarge"], efa=True, min=1),
    "EFA without a placement group": _queue(
        instanceTypes=["p4d.24xlarge"], efa=True, placementGroup=False
    ),
    "a placement group without EFA": _queue(placementGroup=True),
    "a capacity block": _queue(**_P5, capacityReservationId=BLOCK, efa=True),
    "a reservation": _queue(
        instanceTypes=["trn1.32xlarge"], capacityReservationId=TRAINIUM, efa=True, min=2
    ),
    "Trainium with our script's help": _queue(
        instanceTypes=["trn1.32xlarge"], efa=True, neuron=True, max=2
    ),
    "disks of the nodes": _queue(instanceTypes=["c5d.9xlarge"], localScratch=True),
    "one thread a core": _queue(multithreading=False),
    "GPUs examined before a job": _queue(instanceTypes=["g5.12xlarge"], gpuHealthCheck=True),
    "scripts": lambda places: {
        "head": {"scripts": [{"source": SCRIPT}]},
        "queue": {
            "scripts": [
                {"source": SCRIPT, "arguments": ["2.20", "--quiet"]},
                {"source": f"s3://{BUCKET}/scripts/two.sh"},
            ]
        },
    },
    "two queues": _two_queues,
    "two queues, one of them spot": lambda places: _two_queues(places, capacity="spot"),
    "login nodes": lambda places: {
        "loginNodes": [
            {"name": "door", "instanceType": "c5.large", "count": 2, "subnetId": places.head_subnet}
        ]
    },
    "a persistent filesystem": _fsx(
        capacityGib=2400, deployment="PERSISTENT_2", throughput=250, compress=True, keep=True
    ),
    "a filesystem of disks": _fsx(
        capacityGib=6000, deployment="PERSISTENT_1", disks="HDD", throughput=12
    ),
    "the older form of import and export": _fsx(
        capacityGib=1200,
        deployment="PERSISTENT_1",
        throughput=200,
        importPath=f"s3://{BUCKET}/tokens",
        exportPath=f"s3://{BUCKET}/out",
        importChanges="NEW_CHANGED",
    ),
    "an archive of the whole filesystem": _fsx(capacityGib=1200, archive=f"s3://{BUCKET}/lab/"),
    "data repositories": _fsx(
        capacityGib=1200,
        deployment="PERSISTENT_2",
        throughput=125,
        repositories=[
            _REPOSITORY,
            {
                "source": f"s3://{BUCKET}/out/",
                "path": "/out",
                "importChanges": [],
                "exportChanges": ["new", "changed", "deleted"],
            },
        ],
    ),
    "a filesystem that exists": lambda places: {
        "sharedStorage": [{"name": "s", "mountPath": "/fsx", "fsx": {"fileSystemId": places.fsx}}]
    },
    "EFS": _shared(efs={}),
    "EFS that exists": lambda places: _shared(efs={"fileSystemId": places.efs})(places),
    "a volume of the head node": _shared(ebs={"sizeGib": 200}),
    "a slow volume": _shared(ebs={"sizeGib": 500, "volumeType": "st1"}),
    "a volume that exists": lambda places: _shared(ebs={"volumeId": places.volume})(places),
    "three filesystems": lambda places: {
        "sharedStorage": [
            SCRATCH,
            {"name": "home", "mountPath": "/shared", "efs": {}},
            {"name": "tools", "mountPath": "/tools", "ebs": {"sizeGib": 50, "keep": True}},
        ]
    },
    "buckets": lambda places: {
        "s3Access": [{"bucket": BUCKET, "prefix": "out", "write": True}, {"bucket": BUCKET}],
        "s3Mounts": [{"bucket": BUCKET, "mountPath": "/corpus", "prefix": "tokens"}],
    },
    "secrets and inputs": lambda places: dict(_SECRETS),
    "policies and tags": lambda places: {
        "iamPolicies": [READ_ONLY],
        "tags": {"team": "research", "cost-center": "42"},
    },
    "users and an environment": lambda places: {
        "users": [{"name": "ada", "uid": 2001, "sshKeys": ["ssh-ed25519 AAAA ada"]}],
        "environment": {"kind": "conda", "requirements": ["torch==2.13.0"]},
    },
}

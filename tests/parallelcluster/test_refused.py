"""What ParallelCluster refuses is told in its own words and by the field of our spec."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
from tests.parallelcluster.cloud import BUCKET, SETTINGS, Cloud, Places
from tests.parallelcluster.servers.reservations import BLOCK, ELSEWHERE, TRAINIUM
from tests.parallelcluster.specs import spec

from trainyard.backends.parallelcluster.config import configuration, document
from trainyard.backends.parallelcluster.fields import field_of
from trainyard.backends.parallelcluster.making import Making
from trainyard.backends.parallelcluster.refusals import Invalid
from trainyard_contracts.parallelcluster import ParallelClusterSpec

pytestmark = pytest.mark.parallelcluster
Json = dict[str, Any]
NO_SUBNET = "subnet-0123456789abcdef0"


class Mistake(NamedTuple):
    """What is wrong, the field that must be named, and a part of ParallelCluster's sentence."""

    change: Callable[[Places], Json]
    field: str
    words: str


def _queue(**changes: Any) -> Callable[[Places], Json]:
    return lambda places: {"queue": changes}


def _shared(path: str, **settings: Any) -> Callable[[Places], Json]:
    return lambda places: {"sharedStorage": [{"name": "s", "mountPath": path, **settings}]}


#: No spec can know these: they are about what is in the account, or is newer than our lists.
UNKNOWABLE: Mapping[str, Mistake] = {
    "a type that there is not": Mistake(
        _queue(instanceTypes=["c5.huge"]), "queues.0.instanceTypes", "c5.huge"
    ),
    "a head node of a type that there is not": Mistake(
        lambda places: {"head": {"instanceType": "c5.huge"}}, "headNode.instanceType", "c5.huge"
    ),
    "a subnet that there is not": Mistake(
        _queue(subnetIds=[NO_SUBNET]), "queues.0.subnetIds", NO_SUBNET
    ),
    "a head node's subnet that there is not": Mistake(
        lambda places: {"head": {"subnetId": NO_SUBNET}}, "headNode.subnetId", NO_SUBNET
    ),
    "a key pair that there is not": Mistake(
        lambda places: {"head": {"keyName": "nobody"}}, "headNode.keyName", "nobody"
    ),
    "an image that there is not": Mistake(
        lambda places: {"image": {"customAmi": "ami-0123456789abcdef0"}},
        "image.customAmi",
        "ami-0123456789abcdef0",
    ),
    "an image of another version": Mistake(
        lambda places: {"image": {"customAmi": places.foreign_image}},
        "image.customAmi",
        "was created with pcluster 3.9.0",
    ),
    "an image for other processors": Mistake(
        lambda places: {"image": {"customAmi": places.arm_image}},
        "image.customAmi",
        "is incompatible with the architecture supported by the instance type",
    ),
    "a queue's image for other processors": Mistake(
        lambda places: {"queue": {"customAmi": places.arm_image}},
        "queues.0.customAmi",
        "is incompatible with the architecture supported by the instance type",
    ),
    "an archive in a bucket that there is not": Mistake(
        _shared("/fsx", fsx={"capacityGib": 1200, "archive": "s3://no-such-bucket/lab/"}),
        "sharedStorage.0.fsx.archive",
        "no-such-bucket",
    ),
    "a reservation of another type": Mistake(
        _queue(instanceTypes=["trn1.2xlarge"], capacityReservationId=TRAINIUM),
        "queues.0.capacityReservationId",
        "must have the same instance type",
    ),
    "a reservation in another zone": Mistake(
        _queue(instanceTypes=["trn1.32xlarge"], capacityReservationId=ELSEWHERE),
        "queues.0.capacityReservationId",
        "must use the same availability zone",
    ),
    "a reservation that is no block": Mistake(
        _queue(
            instanceTypes=["trn1.32xlarge"],
            capacity="capacityBlock",
            capacityReservationId=TRAINIUM,
            min=2,
            max=2,
        ),
        "queues.0.capacityReservationId",
        "is not a Capacity Block reservation",
    ),
    "a block of fewer nodes": Mistake(
        _queue(
            instanceTypes=["p5.48xlarge"],
            capacity="capacityBlock",
            capacityReservationId=BLOCK,
            min=8,
            max=8,
        ),
        "queues.0.capacityReservationId",
        "exceeding the total instances count",
    ),
    "a reservation of another system": Mistake(
        lambda places: {
            "image": {"os": "rhel8"},
            "queue": {"instanceTypes": ["trn1.32xlarge"], "capacityReservationId": TRAINIUM},
        },
        "queues.0.capacityReservationId",
        "not compatible with the cluster OS",
    ),
    "two subnets in one zone": Mistake(
        lambda places: {
            "queue": {"subnetIds": [places.subnet, places.head_subnet]},
            "sharedStorage": [{"name": "s", "mountPath": "/s", "efs": {}}],
        },
        "queues.0.subnetIds",
        "two or more subnets in the same Availability",
    ),
    "a filesystem in another VPC": Mistake(
        lambda places: _shared("/fsx", fsx={"fileSystemId": places.fsx_in_other_vpc})(places),
        "sharedStorage.0.fsx.fileSystemId",
        "same VPC",
    ),
    "EFS in another zone than the workers": Mistake(
        lambda places: {
            "queue": {"subnetIds": [places.other_zone]},
            "sharedStorage": [
                {"name": "s", "mountPath": "/s", "efs": {"fileSystemId": places.efs}}
            ],
        },
        "sharedStorage.0.efs.fileSystemId",
        "no existing Mount Target",
    ),
    "a volume that there is not": Mistake(
        _shared("/s", ebs={"volumeId": "vol-0123456789abcdef0"}),
        "sharedStorage.0.ebs.volumeId",
        "vol-0123456789abcdef0",
    ),
    "a policy that there is not": Mistake(
        lambda places: {"iamPolicies": ["arn:aws:iam::123456789012:policy/parallelcluster-x"]},
        "iamPolicies",
        "parallelcluster-x",
    ),
    "data in a bucket that there is not": Mistake(
        _shared("/fsx", fsx={"capacityGib": 1200, "importPath": "s3://no-such-bucket/x"}),
        "sharedStorage.0.fsx.importPath",
        "no-such-bucket",
    ),
    "a head node too small for its workers": Mistake(
        lambda places: {"head": {"instanceType": "t3.small"}, "queue": {"max": 5000}},
        "headNode.instanceType",
        "GB of memory",
    ),
    "a placement group where none can be": Mistake(
        _queue(instanceTypes=["t3.xlarge"], placementGroup=True),
        "queues.0.placementGroup",
        "cluster placement group",
    ),
}


@pytest.mark.parametrize("name", UNKNOWABLE)
def test_a_mistake_that_no_spec_can_know_is_named_by_our_field(cloud: Cloud, name: str) -> None:
    change, field, words = UNKNOWABLE[name]
    read = ParallelClusterSpec.model_validate(spec(cloud.places, **change(cloud.places)))
    told = refusal(cloud, read, document(Making(read, 1, {}, SETTINGS)))
    assert any(one.field == field and words in one.message for one in told.errors), told.errors


def test_a_script_that_there_is_not_is_a_warning_with_its_field(cloud: Cloud) -> None:
    script = {"source": "s3://no-such-bucket/x.sh"}
    read = ParallelClusterSpec.model_validate(spec(cloud.places, queue={"scripts": [script]}))
    findings = cloud.api.dry_run("demo", document(Making(read, 1, {}, SETTINGS))).findings
    (found,) = [one for one in findings if "no-such-bucket" in one.message]
    assert found.level == "WARNING"
    assert field_of(read, found) == "queues.0.scripts.0.source"


def refusal(cloud: Cloud, read: ParallelClusterSpec, text: str) -> Invalid:
    with pytest.raises(Invalid) as caught:
        cloud.api.dry_run("demo", text)
    assert caught.value.detail.startswith("ParallelCluster refused POST /v3/clusters (400)")
    return caught.value.told_of(read)


def _set(*path: str | int, to: Any) -> Callable[[Json], None]:
    def change(config: Json) -> None:
        place: Any = config
        for part in path[:-1]:
            place = place.setdefault(part, {}) if isinstance(place, dict) else place[part]
        place[path[-1]] = to

    return change


class Pushed(NamedTuple):
    """A change of the configuration itself, past the checks of our spec."""

    change: Callable[[Json], None]
    field: str
    words: str


def _again(config: Json) -> None:
    config["Scheduling"]["SlurmQueues"] *= 2


def _many(config: Json) -> None:
    (queue,) = config["Scheduling"]["SlurmQueues"]
    config["Scheduling"]["SlurmQueues"] = [{**queue, "Name": f"q{at}"} for at in range(51)]


def _two_filesystems(config: Json) -> None:
    (first,) = config["SharedStorage"]
    config["SharedStorage"].append({**first, "Name": "second", "MountDir": "/second"})


def _same_place(config: Json) -> None:
    (first,) = config["SharedStorage"]
    volume = {"Name": "v", "MountDir": first["MountDir"], "StorageType": "Ebs"}
    config["SharedStorage"].append(volume)


def _both_forms(config: Json) -> None:
    settings = config["SharedStorage"][0]["FsxLustreSettings"]
    settings["ImportPath"] = f"s3://{BUCKET}/tokens"
    settings["DataRepositoryAssociations"] = [
        {"Name": "d", "DataRepositoryPath": f"s3://{BUCKET}/out/", "FileSystemPath": "/out"}
    ]


def _spot_in_order(config: Json) -> None:
    config["Scheduling"]["SlurmQueues"][0] |= {
        "CapacityType": "SPOT",
        "AllocationStrategy": "prioritized",
    }


def _block(config: Json) -> None:
    queue = config["Scheduling"]["SlurmQueues"][0]
    queue["CapacityType"] = "CAPACITY_BLOCK"
    queue["ComputeResources"][0] |= {"MinCount": 1, "MaxCount": 2}


_QUEUE = ("Scheduling", "SlurmQueues", 0)
_NODES = (*_QUEUE, "ComputeResources", 0)
_FSX = ("SharedStorage", 0, "FsxLustreSettings")
_TYPES = (*_NODES, "Instances")
PUSHED: Mapping[str, Pushed] = {
    "more nodes at least than at most": Pushed(
        _set(*_NODES, "MinCount", to=9), "queues.0.min", "greater than or equal to min count"
    ),
    "a block with room": Pushed(_block, "queues.0.min", "same value of min count"),
    "both forms of import": Pushed(
        _both_forms, "sharedStorage.0.fsx.repositories", "can not be used on the same file system"
    ),
    "EFA on a type without it": Pushed(
        _set(*_NODES, "Efa", to={"Enabled": True}), "queues.0.efa", "do not support EFA"
    ),
    "a key that there is not": Pushed(
        _set("HeadNode", "Desktop", to=1), "headNode", "Unknown field"
    ),
    "a system that there is not": Pushed(
        _set("Image", "Os", to="alinux2"), "image.os", "Must be one of"
    ),
    "a price below nothing": Pushed(
        _set(*_NODES, "SpotPrice", to=-1), "queues.0.spotPrice", "greater than or equal to 0"
    ),
    "no node at all": Pushed(
        _set(*_NODES, "MaxCount", to=0), "queues.0.max", "greater than or equal to 1"
    ),
    "a subnet's name": Pushed(
        _set(*_QUEUE, "Networking", "SubnetIds", to=["mine"]),
        "queues.0.subnetIds",
        "String does not match",
    ),
    "a filesystem's kind": Pushed(
        _set(*_FSX, "DeploymentType", to="PERSISTENT_3"),
        "sharedStorage.0.fsx.deployment",
        "Must be one of",
    ),
    "one name for two queues": Pushed(_again, "queues", "must be unique"),
    "too many queues": Pushed(_many, "queues", "supports up to 50"),
    "a queue's name": Pushed(
        _set(*_QUEUE, "Name", to="Workers_1"), "queues.0.name", "must begin with a letter"
    ),
    "a reserved directory": Pushed(
        _set("SharedStorage", 0, "MountDir", to="/opt/slurm"),
        "sharedStorage.0.mountPath",
        "is reserved",
    ),
    "one directory for two filesystems": Pushed(
        _same_place, "sharedStorage.0.mountPath", "used for multiple shared storage"
    ),
    "two filesystems that are made": Pushed(
        _two_filesystems, "sharedStorage", "Too many new FSx shared storage"
    ),
    "a size that is not offered": Pushed(
        _set(*_FSX, "StorageCapacity", to=1300),
        "sharedStorage.0.fsx.capacityGib",
        "increments of 2,400 GB",
    ),
    "a throughput without a choice": Pushed(
        _set(*_FSX, "PerUnitStorageThroughput", to=125),
        "sharedStorage.0.fsx.throughput",
        "only be used when deployment type",
    ),
    "processors of two kinds": Pushed(
        _set(*_TYPES, to=[{"InstanceType": "c5.xlarge"}, {"InstanceType": "c7g.xlarge"}]),
        "queues.0.instanceTypes",
        "architecture",
    ),
    "GPUs of two numbers": Pushed(
        _set(*_TYPES, to=[{"InstanceType": "g5.xlarge"}, {"InstanceType": "g5.12xlarge"}]),
        "queues.0.instanceTypes",
        "same number of GPUs",
    ),
    "spot in an order": Pushed(
        _spot_in_order, "queues.0.allocationStrategy", "SPOT CapacityType can only use"
    ),
    "one type twice": Pushed(
        _set(*_TYPES, to=[{"InstanceType": "c5.xlarge"}] * 2),
        "queues.0.instanceTypes",
        "Duplicate instance type",
    ),
    "a tag of ParallelCluster's": Pushed(
        _set("Tags", to=[{"Key": "parallelcluster:x", "Value": "1"}]), "tags", "is reserved"
    ),
}


@pytest.mark.parametrize("name", PUSHED)
def test_a_mistake_past_our_own_checks_is_named_by_our_field(cloud: Cloud, name: str) -> None:
    change, field, words = PUSHED[name]
    read = ParallelClusterSpec.model_validate(spec(cloud.places))
    config = configuration(Making(read, 1, {}, SETTINGS))
    change(config)
    told = refusal(cloud, read, text_of(config))
    assert any(one.field == field and words in one.message for one in told.errors), told.errors


def text_of(config: Json) -> str:
    return json.dumps(config)


def test_there_are_twenty_mistakes_of_each_kind_at_least() -> None:
    assert min(len(UNKNOWABLE), len(PUSHED)) >= 20

"""Where in our spec a validator's finding belongs: by its name, and by the names in its sentence.

Queues, types, subnets, images and filesystems are found in the sentence by what the spec calls
them. Names of validators are those of ParallelCluster 3.16.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from trainyard_contracts.parallelcluster import ParallelClusterSpec

#: What a finding is about where nothing in it tells more.
ANYWHERE = "backend"
Place = Callable[[ParallelClusterSpec, str], str]


def place_of(spec: ParallelClusterSpec, validator: str, message: str) -> str:
    """The field that the validator's sentence is about."""
    name = validator.removeprefix("AsyncTimed")  # those that may take long have it before
    return PLACES.get(name, _named)(spec, message)


def _says(message: str, *words: str | None) -> bool:
    """Whether one of the words is there, and not as a part of a longer one."""
    return any(
        word and re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-]|\.\w)", message)
        for word in words
    )


def _fixed(field: str) -> Place:
    return lambda spec, message: field


def _queue(leaf: str) -> Place:
    """A field of the queue that the sentence names; of the only one where it names none."""

    def place(spec: ParallelClusterSpec, message: str) -> str:
        found = [at for at, queue in enumerate(spec.queues) if _says(message, queue.name)]
        found = found or [
            at
            for at, queue in enumerate(spec.queues)
            if _says(message, queue.capacity_reservation_id, queue.capacity_reservation_group)
            or _says(message, *queue.subnet_ids)
        ]
        found = found or [
            at for at, queue in enumerate(spec.queues) if _says(message, *queue.instance_types)
        ]
        only = [0] if len(spec.queues) == 1 else []
        return f"queues.{(found or only)[0]}.{leaf}" if found or only else "queues"

    return place


def _storage(leaf: str) -> Place:
    """The same for what is shared; `leaf` '' is the whole entry."""

    def place(spec: ParallelClusterSpec, message: str) -> str:
        found = [
            at
            for at, one in enumerate(spec.shared_storage)
            if _says(message, one.name, one.existing) or one.mount_path in message
        ]
        kind = leaf.partition(".")[0]
        found = found or [at for at, one in enumerate(spec.shared_storage) if kind == one.kind]
        found = found or ([0] if len(spec.shared_storage) == 1 else [])
        where = f"sharedStorage.{found[0]}" if found else "sharedStorage"
        return f"{where}.{leaf}" if found and leaf else where

    return place


def _type(spec: ParallelClusterSpec, message: str) -> str:
    """Whose instance type the sentence names."""
    for at, queue in enumerate(spec.queues):
        if _says(message, *queue.instance_types):
            return f"queues.{at}.instanceTypes"
    for at, pool in enumerate(spec.login_nodes):
        if _says(message, pool.instance_type):
            return f"loginNodes.{at}.instanceType"
    return "headNode.instanceType"


def _image(spec: ParallelClusterSpec, message: str) -> str:
    for at, queue in enumerate(spec.queues):
        if _says(message, queue.custom_ami):
            return f"queues.{at}.customAmi"
    if _says(message, spec.image.custom_ami) or "AMI" in message:
        return "image.customAmi" if spec.image.custom_ami else "image.os"
    return "image.os"


def _subnet(spec: ParallelClusterSpec, message: str) -> str:
    if _says(message, spec.head_node.subnet_id):
        return "headNode.subnetId"
    for at, pool in enumerate(spec.login_nodes):
        if _says(message, pool.subnet_id):
            return f"loginNodes.{at}.subnetId"
    return _queue("subnetIds")(spec, message)


def _head(spec: ParallelClusterSpec, message: str) -> str:
    if _says(message, spec.head_node.subnet_id) or "subnet" in message.lower():
        return "headNode.subnetId"
    if _says(message, spec.head_node.key_name) or "key pair" in message.lower():
        return "headNode.keyName"
    return "headNode.instanceType"


def _launch(spec: ParallelClusterSpec, message: str) -> str:
    leaf = "subnetIds" if "subnet" in message.lower() else "instanceTypes"
    return _queue(leaf)(spec, message)


def _script(spec: ParallelClusterSpec, message: str) -> str:
    """Whose script has the address in the sentence."""
    lists: dict[str, Sequence[str]] = {
        "headNode.scripts": [one.source for one in spec.head_node.scripts]
    }
    for at, queue in enumerate(spec.queues):
        lists[f"queues.{at}.scripts"] = [one.source for one in queue.scripts]
    for at, pool in enumerate(spec.login_nodes):
        lists[f"loginNodes.{at}.scripts"] = [one.source for one in pool.scripts]
    for field, sources in lists.items():
        for number, source in enumerate(sources):
            bucket, _, key = source.removeprefix("s3://").partition("/")
            if source in message or (_says(message, bucket) and _says(message, key)):
                return f"{field}.{number}.source"
    return _storage("fsx.importPath")(spec, message)


def _bucket(spec: ParallelClusterSpec, message: str) -> str:
    """Which field names the bucket in the sentence."""
    for field, bucket in spec.read_buckets().items():
        if _says(message, bucket):
            return field
    return _storage("fsx")(spec, message)


def _volume(spec: ParallelClusterSpec, message: str) -> str:
    """A volume's size or type: of the head node, if nothing is shared by it."""
    if any(storage.kind == "ebs" for storage in spec.shared_storage):
        return _storage("ebs.sizeGib")(spec, message)
    return "headNode.rootVolumeGib"


def _twice(spec: ParallelClusterSpec, message: str) -> str:
    words = {"Queue": "queues", "Shared Storage": "sharedStorage", "Login": "loginNodes"}
    return next((field for word, field in words.items() if message.startswith(word)), "queues")


def _too_many(spec: ParallelClusterSpec, message: str) -> str:
    return "loginNodes" if "login" in message.lower() else "queues"


def _part_name(spec: ParallelClusterSpec, message: str) -> str:
    for at, pool in enumerate(spec.login_nodes):
        if _says(message, pool.name):
            return f"loginNodes.{at}.name"
    return _queue("name")(spec, message)


def _named(spec: ParallelClusterSpec, message: str) -> str:
    """Where no validator of this table found it: by any name in the sentence."""
    return next((field for field, name in _names(spec) if _says(message, name)), ANYWHERE)


def _names(spec: ParallelClusterSpec) -> Iterator[tuple[str, str | None]]:
    """Ids and names of the spec that are unlike any other word, then those of its parts."""
    yield "headNode.subnetId", spec.head_node.subnet_id
    yield "image.customAmi", spec.image.custom_ami
    yield "headNode.instanceType", spec.head_node.instance_type
    for at, queue in enumerate(spec.queues):
        yield f"queues.{at}.customAmi", queue.custom_ami
        yield f"queues.{at}.capacityReservationId", queue.capacity_reservation_id
        yield f"queues.{at}.capacityReservationGroup", queue.capacity_reservation_group
        yield from ((f"queues.{at}.subnetIds", one) for one in queue.subnet_ids)
        yield from ((f"queues.{at}.instanceTypes", one) for one in queue.instance_types)
    for at, pool in enumerate(spec.login_nodes):
        yield f"loginNodes.{at}.subnetId", pool.subnet_id
        yield f"loginNodes.{at}.instanceType", pool.instance_type
    for at, storage in enumerate(spec.shared_storage):
        yield f"sharedStorage.{at}.{storage.kind}", storage.existing
    yield "headNode.keyName", spec.head_node.key_name
    yield from ((f"queues.{at}", queue.name) for at, queue in enumerate(spec.queues))
    yield from (
        (f"sharedStorage.{at}", storage.name) for at, storage in enumerate(spec.shared_storage)
    )


#: By the validator's name (3.16.1). One that is not here is placed by the names in its sentence.
PLACES: Mapping[str, Place] = {
    "ClusterNameValidator": _fixed("name"),
    "ArchitectureOsValidator": _fixed("image.os"),
    "AmiOsCompatibleValidator": _image,
    "CustomAmiTagValidator": _image,
    "OsCustomAmiValidator": _image,
    "InstanceTypeBaseAMICompatibleValidator": _image,
    "InstanceTypeValidator": _type,
    "InstanceTypeOSCompatibleValidator": _type,
    "InstanceTypeAcceleratorManufacturerValidator": _type,
    "InstanceTypeMemoryInfoValidator": _type,
    "InstanceArchitectureCompatibilityValidator": _queue("instanceTypes"),
    "InstanceTypePlacementGroupValidator": _queue("placementGroup"),
    "HeadNodeLaunchTemplateValidator": _head,
    "HeadNodeMemorySizeValidator": _fixed("headNode.instanceType"),
    "KeyPairValidator": _fixed("headNode.keyName"),
    "DcvValidator": _fixed("headNode.dcv"),
    "ElasticIpValidator": _fixed("headNode.subnetId"),
    "RootVolumeSizeValidator": _fixed("headNode.rootVolumeGib"),
    "SubnetsValidator": _subnet,
    "QueueSubnetsValidator": _queue("subnetIds"),
    "SingleInstanceTypeSubnetValidator": _queue("subnetIds"),
    "MultiAzPlacementGroupValidator": _queue("placementGroup"),
    "MultiNetworkInterfacesInstancesValidator": _queue("subnetIds"),
    "ComputeResourceLaunchTemplateValidator": _launch,
    "ComputeResourceSizeValidator": _queue("min"),
    "CapacityTypeValidator": _queue("capacity"),
    "CapacityReservationValidator": _queue("capacityReservationId"),
    "CapacityReservationSizeValidator": _queue("capacityReservationId"),
    "CapacityReservationResourceGroupValidator": _queue("capacityReservationGroup"),
    "CapacityBlockHealthStatusValidator": _queue("capacityReservationId"),
    "UltraserverCapacityBlockSizeValidator": _queue("capacityReservationId"),
    "PlacementGroupNamingValidator": _queue("placementGroup"),
    "PlacementGroupCapacityTypeValidator": _queue("placementGroup"),
    "PlacementGroupCapacityReservationValidator": _queue("placementGroup"),
    "EfaPlacementGroupValidator": _queue("placementGroup"),
    "EfaValidator": _queue("efa"),
    "InstancesEFAValidator": _queue("efa"),
    "EfaMultiAzValidator": _queue("efa"),
    "EfaOsArchitectureValidator": _queue("efa"),
    "EfaSecurityGroupValidator": _queue("efa"),
    "InstancesAllocationStrategyValidator": _queue("allocationStrategy"),
    "InstancesCPUValidator": _queue("instanceTypes"),
    "InstancesAcceleratorsValidator": _queue("instanceTypes"),
    "InstancesNetworkingValidator": _queue("instanceTypes"),
    "InstancesMemorySchedulingWarningValidator": _queue("instanceTypes"),
    "NameValidator": _part_name,
    "DuplicateNameValidator": _twice,
    "MaxCountValidator": _too_many,
    "NumberOfStorageValidator": _fixed("sharedStorage"),
    "SharedStorageNameValidator": _storage("name"),
    "SharedStorageMountDirValidator": _storage("mountPath"),
    "DuplicateMountDirValidator": _storage("mountPath"),
    "OverlappingMountDirValidator": _storage("mountPath"),
    "ManagedFsxMultiAzValidator": _queue("subnetIds"),
    "ExistingFsxNetworkingValidator": _storage("fsx.fileSystemId"),
    "FsxArchitectureOsValidator": _fixed("image.os"),
    "FsxDraValidator": _storage("fsx.repositories"),
    "FsxS3Validator": _storage("fsx.importPath"),
    "FsxPersistentOptionsValidator": _storage("fsx.throughput"),
    "FsxStorageTypeOptionsValidator": _storage("fsx.throughput"),
    "FsxStorageCapacityValidator": _storage("fsx.capacityGib"),
    "FsxAutoImportValidator": _storage("fsx.importChanges"),
    "FsxBackupOptionsValidator": _storage("fsx"),
    "EfsIdValidator": _storage("efs.fileSystemId"),
    "EbsVolumeTypeSizeValidator": _volume,
    "EbsVolumeIopsValidator": _volume,
    "EbsVolumeSizeSnapshotValidator": _storage("ebs"),
    "SharedEbsVolumeIdValidator": _storage("ebs.volumeId"),
    "MultiAzEbsVolumeValidator": _storage("ebs.volumeId"),
    "S3BucketUriValidator": _script,
    "UrlValidator": _script,
    "S3BucketValidator": _bucket,
    "S3BucketRegionValidator": _bucket,
    "AdditionalIamPolicyValidator": _fixed("iamPolicies"),
    "IamPolicyValidator": _fixed("iamPolicies"),
    "ComputeResourceTagsValidator": _fixed("tags"),
}

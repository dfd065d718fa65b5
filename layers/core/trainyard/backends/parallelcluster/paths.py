"""Which field of our spec a path of ParallelCluster's configuration was made of.

It is the other direction of `config.py`; a test holds both together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_QUEUE = r"Scheduling\.SlurmQueues\.(\d+)"
_NODES = rf"{_QUEUE}\.ComputeResources\.\d+"
_POOL = r"LoginNodes\.Pools\.(\d+)"
_STORAGE = r"SharedStorage\.(\d+)"
_FSX = rf"{_STORAGE}\.FsxLustreSettings"
#: The first one that the path begins with. `{}` is the number in it.
_OURS: Sequence[tuple[str, str]] = (
    (r"Image\.Os", "image.os"),
    (r"Image\.CustomAmi", "image.customAmi"),
    (r"Image", "image"),
    (r"HeadNode\.InstanceType", "headNode.instanceType"),
    (r"HeadNode\.Networking", "headNode.subnetId"),
    (r"HeadNode\.LocalStorage", "headNode.rootVolumeGib"),
    (r"HeadNode\.Ssh\.KeyName", "headNode.keyName"),
    (r"HeadNode\.Ssh", "headNode.sshFrom"),
    (r"HeadNode\.Dcv\.AllowedIps", "headNode.dcvFrom"),
    (r"HeadNode\.Dcv", "headNode.dcv"),
    (r"HeadNode\.CustomActions", "headNode.scripts"),
    (r"HeadNode\.Iam\.S3Access", "s3Access"),
    (r"HeadNode\.Iam", "iamPolicies"),
    (r"HeadNode", "headNode"),
    (rf"{_NODES}\.Instances", "queues.{}.instanceTypes"),
    (rf"{_NODES}\.InstanceType", "queues.{}.instanceTypes"),
    (rf"{_NODES}\.MinCount", "queues.{}.min"),
    (rf"{_NODES}\.MaxCount", "queues.{}.max"),
    (rf"{_NODES}\.SpotPrice", "queues.{}.spotPrice"),
    (rf"{_NODES}\.Efa", "queues.{}.efa"),
    (rf"{_NODES}\.DisableSimultaneousMultithreading", "queues.{}.multithreading"),
    (rf"{_NODES}\.HealthChecks", "queues.{}.gpuHealthCheck"),
    (
        rf"{_NODES}\.CapacityReservationTarget\.CapacityReservationResourceGroupArn",
        "queues.{}.capacityReservationGroup",
    ),
    (rf"{_NODES}\.CapacityReservationTarget", "queues.{}.capacityReservationId"),
    (rf"{_QUEUE}\.Name", "queues.{}.name"),
    (rf"{_QUEUE}\.CapacityType", "queues.{}.capacity"),
    (rf"{_QUEUE}\.AllocationStrategy", "queues.{}.allocationStrategy"),
    (rf"{_QUEUE}\.Networking\.PlacementGroup", "queues.{}.placementGroup"),
    (rf"{_QUEUE}\.Networking", "queues.{}.subnetIds"),
    (
        rf"{_QUEUE}\.ComputeSettings\.LocalStorage\.EphemeralVolume",
        "queues.{}.localScratch",
    ),
    (rf"{_QUEUE}\.ComputeSettings", "queues.{}.rootVolumeGib"),
    (rf"{_QUEUE}\.Image", "queues.{}.customAmi"),
    (rf"{_QUEUE}\.CustomActions", "queues.{}.scripts"),
    (rf"{_QUEUE}\.Iam\.S3Access", "s3Access"),
    (rf"{_QUEUE}\.Iam", "iamPolicies"),
    (_QUEUE, "queues.{}"),
    (r"Scheduling", "queues"),
    (rf"{_POOL}\.Name", "loginNodes.{}.name"),
    (rf"{_POOL}\.InstanceType", "loginNodes.{}.instanceType"),
    (rf"{_POOL}\.Count", "loginNodes.{}.count"),
    (rf"{_POOL}\.Networking", "loginNodes.{}.subnetId"),
    (rf"{_POOL}\.CustomActions", "loginNodes.{}.scripts"),
    (rf"{_POOL}\.Iam", "iamPolicies"),
    (_POOL, "loginNodes.{}"),
    (r"LoginNodes", "loginNodes"),
    (rf"{_STORAGE}\.Name", "sharedStorage.{}.name"),
    (rf"{_STORAGE}\.MountDir", "sharedStorage.{}.mountPath"),
    (rf"{_FSX}\.FileSystemId", "sharedStorage.{}.fsx.fileSystemId"),
    (rf"{_FSX}\.StorageCapacity", "sharedStorage.{}.fsx.capacityGib"),
    (rf"{_FSX}\.DeploymentType", "sharedStorage.{}.fsx.deployment"),
    (rf"{_FSX}\.StorageType", "sharedStorage.{}.fsx.disks"),
    (rf"{_FSX}\.PerUnitStorageThroughput", "sharedStorage.{}.fsx.throughput"),
    (rf"{_FSX}\.DataCompressionType", "sharedStorage.{}.fsx.compress"),
    (rf"{_FSX}\.ImportPath", "sharedStorage.{}.fsx.importPath"),
    (rf"{_FSX}\.ExportPath", "sharedStorage.{}.fsx.exportPath"),
    (rf"{_FSX}\.AutoImportPolicy", "sharedStorage.{}.fsx.importChanges"),
    (rf"{_FSX}\.DeletionPolicy", "sharedStorage.{}.fsx.keep"),
    (rf"{_FSX}\.DataRepositoryAssociations", "sharedStorage.{}.fsx.repositories"),
    (_FSX, "sharedStorage.{}.fsx"),
    (rf"{_STORAGE}\.EfsSettings\.FileSystemId", "sharedStorage.{}.efs.fileSystemId"),
    (rf"{_STORAGE}\.EfsSettings\.Encrypted", "sharedStorage.{}.efs.encrypted"),
    (rf"{_STORAGE}\.EfsSettings\.DeletionPolicy", "sharedStorage.{}.efs.keep"),
    (rf"{_STORAGE}\.EfsSettings", "sharedStorage.{}.efs"),
    (rf"{_STORAGE}\.EbsSettings\.VolumeId", "sharedStorage.{}.ebs.volumeId"),
    (rf"{_STORAGE}\.EbsSettings\.VolumeType", "sharedStorage.{}.ebs.volumeType"),
    (rf"{_STORAGE}\.EbsSettings\.DeletionPolicy", "sharedStorage.{}.ebs.keep"),
    (rf"{_STORAGE}\.EbsSettings", "sharedStorage.{}.ebs.sizeGib"),
    (_STORAGE, "sharedStorage.{}"),
    (r"SharedStorage", "sharedStorage"),
    (r"Tags", "tags"),
)


def ours(path: Sequence[str]) -> str:
    """'' for a part of the configuration that no field of the spec has made."""
    whole = ".".join(path)
    for pattern, field in _OURS:
        if found := re.match(rf"{pattern}(?:\.|$)", whole):
            return field.format(*found.groups()[:1])
    return ""

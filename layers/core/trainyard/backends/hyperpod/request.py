"""The CreateCluster request and the files every node reads, made of a ClusterSpec.

Pure, so that `dryrun` shows exactly what is sent.
"""

from __future__ import annotations

from typing import Any

from trainyard.backends.hyperpod.generated_files import own_spec
from trainyard.backends.hyperpod.naming import HyperPodSettings, lifecycle_prefix, role_arn
from trainyard.domain.records import Cluster
from trainyard_contracts.cluster_parts import SharedFilesystem
from trainyard_contracts.hyperpod import HyperPodClusterSpec, InstanceGroup

ENTRY_SCRIPT = "on_create.sh"
_NODE_TYPES = {"controller": "Controller", "worker": "Compute", "login": "Login"}


def create_cluster_request(cluster: Cluster, settings: HyperPodSettings) -> dict[str, Any]:
    """The exact arguments of sagemaker:CreateCluster."""
    spec = own_spec(cluster)
    source = f"s3://{settings.bucket}/{lifecycle_prefix(cluster)}"
    role = role_arn(cluster, settings)
    request: dict[str, Any] = {
        "ClusterName": cluster.name,
        "InstanceGroups": [_group(spec, group, source, role) for group in spec.instance_groups],
        "NodeRecovery": spec.node_recovery,
        "VpcConfig": network(spec, settings),
        "Tags": [
            {"Key": key, "Value": value} for key, value in cluster.tags(settings.stage).items()
        ],
    }
    if spec.slurm_setup == "SlurmConfig":
        request["Orchestrator"] = {"Slurm": _strategy(spec)}
    if spec.provisioning == "Continuous":
        request["NodeProvisioningMode"] = "Continuous"
    return request


def _group(
    spec: HyperPodClusterSpec, group: InstanceGroup, source: str, role_arn: str
) -> dict[str, Any]:
    request: dict[str, Any] = {
        "InstanceGroupName": group.name,
        "InstanceType": group.instance_type,
        "InstanceCount": group.count + group.spares,
        "LifeCycleConfig": {"SourceS3Uri": source, _entry_point(spec): ENTRY_SCRIPT},
        "ExecutionRole": role_arn,
    }
    if group.threads_per_core is not None:
        request["ThreadsPerCore"] = group.threads_per_core
    if storage := _storage(spec, group):
        request["InstanceStorageConfigs"] = storage
    if group.deep_health_checks:
        request["OnStartDeepHealthChecks"] = list(group.deep_health_checks)
    if group.training_plan_arn is not None:
        request["TrainingPlanArn"] = group.training_plan_arn
    if group.market == "spot":
        request["CapacityRequirements"] = {"Spot": {}}
    if spec.slurm_setup == "SlurmConfig":
        request["SlurmConfig"] = _slurm(spec, group)
    return request


def _entry_point(spec: HyperPodClusterSpec) -> str:
    """After the image's own set-up of Slurm and mounts, or instead of it: never both.

    (Developer Guide, getting started with the CLI.)
    """
    return "OnInitComplete" if spec.slurm_setup == "SlurmConfig" else "OnCreate"


def _strategy(spec: HyperPodClusterSpec) -> dict[str, str]:
    """With Continuous any strategy is refused, without it one is required.

    Merge keeps our lines of slurm.conf.
    """
    return {} if spec.provisioning == "Continuous" else {"SlurmConfigStrategy": "Merge"}


def _slurm(spec: HyperPodClusterSpec, group: InstanceGroup) -> dict[str, Any]:
    config: dict[str, Any] = {"NodeType": _NODE_TYPES[group.role]}
    if group.role == "worker":
        config["PartitionNames"] = [spec.partition_of(group)]
    return config


def _storage(spec: HyperPodClusterSpec, group: InstanceGroup) -> list[dict[str, Any]]:
    storage: list[dict[str, Any]] = []
    if (ebs := group.ebs) is not None:
        key = {} if ebs.kms_key_id is None else {"VolumeKmsKeyId": ebs.kms_key_id}
        storage.append({"EbsVolumeConfig": {"VolumeSizeInGB": ebs.size_gib, **key}})
    if spec.slurm_setup == "SlurmConfig":
        storage.append({"FsxLustreConfig": _lustre(spec.shared_filesystem)})
    return storage


def _lustre(shared: SharedFilesystem) -> dict[str, Any]:
    return {
        "DnsName": shared.dns_name,
        "MountName": shared.mount_name,
        "MountPath": shared.mount_path,
    }


def network(spec: HyperPodClusterSpec, settings: HyperPodSettings) -> dict[str, list[str]]:
    """VpcConfig of the cluster: a filesystem is reached from one's own network only."""
    if spec.network is not None:
        return {
            "SecurityGroupIds": spec.network.security_group_ids,
            "Subnets": spec.network.subnet_ids,
        }
    return {
        "SecurityGroupIds": list(settings.default_security_group_ids),
        "Subnets": list(settings.default_subnet_ids),
    }

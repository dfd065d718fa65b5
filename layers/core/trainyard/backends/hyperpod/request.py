"""The CreateCluster request and the files every node reads, made of a ClusterSpec.

Pure, so that `dryrun` shows exactly what is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from trainyard.backends import lifecycle_bundle
from trainyard.domain import names
from trainyard.domain.records import Cluster
from trainyard_contracts import places
from trainyard_contracts.cluster_parts import SharedFilesystem
from trainyard_contracts.files import ClusterFile, WorkerGroup
from trainyard_contracts.hyperpod import HyperPodClusterSpec, InstanceGroup

ENTRY_SCRIPT = "on_create.sh"
LINK_PORT = 7470
_NODE_TYPES = {"controller": "Controller", "worker": "Compute", "login": "Login"}


@dataclass(frozen=True)
class HyperPodSettings:
    """What a deployment adds to every cluster."""

    stage: str
    region: str
    bucket: str
    event_bus: str
    secret_prefix: str
    node_boundary_arn: str
    heartbeat_seconds: float
    default_subnet_ids: tuple[str, ...] = ()
    default_security_group_ids: tuple[str, ...] = ()
    link_port: int = LINK_PORT


def lifecycle_prefix(cluster: Cluster) -> str:
    """Where this generation's lifecycle bundle lies in the data bucket."""
    return places.lifecycle_prefix(cluster.name, cluster.generation)


def account_arn(settings: HyperPodSettings, service: str, region: str | None = None) -> str:
    """The beginning of an ARN of this deployment's account, up to its resource."""
    _, partition, _, _, account, _ = settings.node_boundary_arn.split(":", 5)
    return f"arn:{partition}:{service}:{settings.region if region is None else region}:{account}"


def role_arn(cluster: Cluster, settings: HyperPodSettings) -> str:
    """The role of this generation's nodes, known before it is made."""
    path = names.node_role_path(settings.stage, cluster.name, cluster.generation)
    name = names.node_role(settings.stage, cluster.name, cluster.generation)
    return f"{account_arn(settings, 'iam', '')}:role{path}{name}"


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


def cluster_file(cluster: Cluster, settings: HyperPodSettings) -> ClusterFile:
    """What each node of the cluster reads first."""
    spec = own_spec(cluster)
    return lifecycle_bundle.cluster_file(
        cluster.name,
        spec,
        settings,
        shared_filesystem=spec.shared_filesystem.changed(filesystem=None),
        slurm_setup=spec.slurm_setup,
        controller_group=_names(spec, "controller")[0],
        worker_groups=[
            WorkerGroup(name=group.name, partition=spec.partition_of(group))
            for group in _workers(spec)
        ],
        expected_workers=spec.worker_count(),
    )


def provisioning_parameters(spec: HyperPodClusterSpec) -> dict[str, Any]:
    """HyperPod's `provisioning_parameters.json`.

    It is for clusters whose Slurm is not set up through the API.
    """
    workers = [
        {"instance_group_name": group.name, "partition_name": spec.partition_of(group)}
        for group in _workers(spec)
    ]
    parameters: dict[str, Any] = {
        "version": "1.0.0",
        "workload_manager": "slurm",
        "controller_group": _names(spec, "controller")[0],
        "worker_groups": workers,
        "fsx_dns_name": spec.shared_filesystem.dns_name,
        "fsx_mountname": spec.shared_filesystem.mount_name,
    }
    if logins := _names(spec, "login"):
        parameters["login_group"] = logins[0]
    return parameters


def generated_files(cluster: Cluster, settings: HyperPodSettings) -> dict[str, bytes]:
    """The files of the bundle that are made of the spec, by path below the lifecycle prefix."""
    files = {places.CLUSTER_FILE: _wire(cluster_file(cluster, settings))}
    if own_spec(cluster).slurm_setup == "ProvisioningParameters":
        files["provisioning_parameters.json"] = provisioning_parameters(own_spec(cluster))
    return {path: lifecycle_bundle.as_file(content) for path, content in files.items()}


def _wire(part: BaseModel) -> dict[str, Any]:
    return part.model_dump(mode="json", by_alias=True)


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


def own_spec(cluster: Cluster) -> HyperPodClusterSpec:
    """The spec by its own class: every cluster that comes here has it."""
    assert isinstance(cluster.spec, HyperPodClusterSpec)
    return cluster.spec


def _names(spec: HyperPodClusterSpec, role: str) -> list[str]:
    return [group.name for group in spec.instance_groups if group.role == role]


def _workers(spec: HyperPodClusterSpec) -> list[InstanceGroup]:
    return [group for group in spec.instance_groups if group.role == "worker"]

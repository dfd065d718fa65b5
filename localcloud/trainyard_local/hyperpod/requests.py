"""HyperPod's rules for requests that are not in botocore's model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainyard_local.sagemaker.errors import ResourceLimitExceeded, ValidationException
from trainyard_local.sagemaker.model import input_shape

MAX_NODES = 64


#: What the local cloud reads of the parameters that are not needed. It refuses any other one:
#: else it would pass it over in silence.
_READ = {
    "CreateCluster": "InstanceGroups VpcConfig Tags Orchestrator NodeRecovery NodeProvisioningMode",
    "UpdateCluster": "InstanceGroups InstanceGroupsToDelete",
    "ListClusters": "NameContains SortBy SortOrder MaxResults NextToken",
    "ListClusterNodes": "InstanceGroupNameContains MaxResults NextToken",
    "DescribeClusterNode": "NodeId",
    "BatchReplaceClusterNodes": "NodeIds",
    "BatchRebootClusterNodes": "NodeIds",
    "ListClusterEvents": "NodeId SortOrder MaxResults NextToken",
}


def check_parameters(operation: str, params: Mapping[str, Any]) -> None:
    """Raise ValidationException for what the local cloud does not do, and say what it does."""
    read = {*input_shape(operation).required_members, *_READ.get(operation, "").split()}
    if passed_over := sorted(set(params) - read):
        raise ValidationException(
            f"the local cloud does not do {', '.join(passed_over)} of {operation}; "
            f"it does: {', '.join(sorted(read))}"
        )
    if set(params.get("Orchestrator") or {}) - {"Slurm"}:
        raise ValidationException(
            "the local cloud does not do the orchestrator Eks; it does: Slurm"
        )


def check_cluster(request: Mapping[str, Any]) -> None:
    """HyperPod's own rules for CreateCluster, in its words where they are published."""
    groups = request.get("InstanceGroups") or []
    if not groups:
        raise ValidationException(
            "At least one InstanceGroup or RestrictedInstanceGroup must be specified"
        )
    names = [group["InstanceGroupName"] for group in groups]
    if len(set(names)) != len(names):
        raise ValidationException("InstanceGroupName must be unique within a cluster")
    for group in groups:
        _check_group(group, has_vpc=bool(request.get("VpcConfig")))
    _check_slurm(request, groups)
    check_size(sum(group["InstanceCount"] for group in groups))


def check_size(nodes: int) -> None:
    if nodes > MAX_NODES:
        raise ResourceLimitExceeded(
            "The account-level service limit 'Maximum number instances allowed per SageMaker "
            f"HyperPod cluster' is {MAX_NODES} Instances, with current utilization of 0 Instances "
            f"and a request delta of {nodes} Instances. "
            "Please use AWS Service Quotas to request an increase for this quota."
        )


def _check_group(group: Mapping[str, Any], *, has_vpc: bool) -> None:
    name = group["InstanceGroupName"]
    if bool(group.get("InstanceType")) == bool(group.get("InstanceRequirements")):
        raise ValidationException(
            "Exactly one of InstanceType or InstanceRequirements must be specified for "
            f"InstanceGroup {name}"
        )
    slurm = group.get("SlurmConfig") or {}
    if slurm.get("PartitionNames") and slurm.get("NodeType") != "Compute":
        raise ValidationException("Partitions can only be assigned to Compute node types")
    storage = group.get("InstanceStorageConfigs") or []
    if not has_vpc and any(
        "FsxLustreConfig" in entry or "FsxOpenZfsConfig" in entry for entry in storage
    ):
        raise ValidationException("FSx configurations are only supported for Custom VPC")


def _check_slurm(request: Mapping[str, Any], groups: list[Mapping[str, Any]]) -> None:
    types = [(group.get("SlurmConfig") or {}).get("NodeType") for group in groups]
    continuous = request.get("NodeProvisioningMode") == "Continuous"
    if continuous and None in types:
        raise ValidationException(
            "SlurmConfig must be specified for every InstanceGroup when NodeProvisioningMode is "
            "Continuous"
        )
    if continuous and ((request.get("Orchestrator") or {}).get("Slurm") or {}).get(
        "SlurmConfigStrategy"
    ):
        raise ValidationException(
            "SlurmConfigStrategy is not supported when NodeProvisioningMode is Continuous"
        )
    if not any(types):
        return
    if types.count("Controller") != 1:
        raise ValidationException(
            "Cluster must have exactly one InstanceGroup with Controller node type"
        )
    controller = groups[types.index("Controller")]
    if controller["InstanceCount"] != 1:
        raise ValidationException(
            "InstanceCount of the Controller InstanceGroup "
            f"{controller['InstanceGroupName']} must be 1"
        )

"""Refuses SageMaker requests as AWS does.

It applies botocore's own model, and HyperPod's rules that are not in that model.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import botocore.session
from moto.core.exceptions import ServiceException

MAX_NODES = 64


class ValidationException(ServiceException):  # type: ignore[misc]
    code = "ValidationException"


class ResourceLimitExceeded(ServiceException):  # type: ignore[misc]
    code = "ResourceLimitExceeded"


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
    read = {*_input_shape(operation).required_members, *_READ.get(operation, "").split()}
    if passed_over := sorted(set(params) - read):
        raise ValidationException(
            f"the local cloud does not do {', '.join(passed_over)} of {operation}; "
            f"it does: {', '.join(sorted(read))}"
        )
    if set(params.get("Orchestrator") or {}) - {"Slurm"}:
        raise ValidationException(
            "the local cloud does not do the orchestrator Eks; it does: Slurm"
        )


def check(operation: str, params: Mapping[str, Any]) -> None:
    """Raise ValidationException, in AWS's words, if `params` do not fit the operation's input."""
    problems = list(_violations(_input_shape(operation), params, ""))
    if problems:
        count = f"{len(problems)} validation error{'s' if len(problems) > 1 else ''} detected: "
        raise ValidationException(count + "; ".join(problems))


@functools.cache
def _input_shape(operation: str) -> Any:
    model = botocore.session.get_session().get_service_model("sagemaker")
    return model.operation_model(operation).input_shape


def _violations(shape: Any, value: Any, path: str) -> Iterator[str]:
    if shape.type_name == "structure":
        yield from _structure(shape, value, path)
    elif shape.type_name == "list":
        yield from _bounds(shape, len(value), value, path, "length")
        for number, item in enumerate(value, start=1):
            yield from _violations(shape.member, item, f"{path}.{number}.member")
    elif shape.type_name == "string":
        yield from _string(shape, value, path)
    elif shape.type_name in ("integer", "long"):
        yield from _bounds(shape, value, value, path, "value")


def _structure(shape: Any, value: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, member in shape.members.items():
        inner = ".".join(part for part in (path, name[0].lower() + name[1:]) if part)
        if value.get(name) is not None:
            yield from _violations(member, value[name], inner)
        elif name in shape.required_members:
            yield f"Value null at '{inner}' failed to satisfy constraint: Member must not be null"


def _string(shape: Any, value: str, path: str) -> Iterator[str]:
    yield from _bounds(shape, len(value), value, path, "length")
    prefix = f"Value '{value}' at '{path}' failed to satisfy constraint: "
    if shape.enum and value not in shape.enum:
        yield prefix + f"Member must satisfy enum value set: [{', '.join(shape.enum)}]"
    pattern = shape.metadata.get("pattern")
    # Python's re has no \p{..}; the tags' pattern is the only one that uses it.
    if pattern and "\\p{" not in pattern and not re.fullmatch(pattern, value):
        yield prefix + f"Member must satisfy regular expression pattern: {pattern}"


def _bounds(shape: Any, size: int, value: Any, path: str, what: str) -> Iterator[str]:
    prefix = f"Value '{value}' at '{path}' failed to satisfy constraint: Member must have {what} "
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and size < low:
        yield prefix + f"greater than or equal to {low}"
    if high is not None and size > high:
        yield prefix + f"less than or equal to {high}"


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

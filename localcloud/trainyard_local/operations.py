"""The parts of AWS that only Trainyard's local cloud plays: clusters, training jobs and sessions.

And what IAM has to know of these calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sam_on_moto.iam import arns
from sam_on_moto.iam.access import Access
from sam_on_moto.iam.arns import Namer, Parameters
from sam_on_moto.moto_patches import supported

OPERATIONS: supported.Operations = {
    **supported.OPERATIONS,
    "sagemaker": frozenset(
        [
            "AddTags",
            "BatchRebootClusterNodes",
            "BatchReplaceClusterNodes",
            "CreateCluster",
            "CreateTrainingJob",
            "DeleteCluster",
            "DeleteTags",
            "DeleteTrainingJob",
            "DescribeCluster",
            "DescribeClusterEvent",
            "DescribeClusterNode",
            "DescribeTrainingJob",
            "ListClusterEvents",
            "ListClusterNodes",
            "ListClusters",
            "ListTags",
            "ListTrainingJobs",
            "StopTrainingJob",
            "UpdateCluster",
            "UpdateTrainingJob",
        ]
    ),
    "ec2": frozenset(["DescribeTags", "TerminateInstances"]),
    "ssm": frozenset(
        [
            "CancelCommand",
            "DescribeInstanceInformation",
            "GetCommandInvocation",
            "ResumeSession",
            "SendCommand",
            "StartSession",
            "TerminateSession",
        ]
    ),
}


def _sagemaker(action: str, p: Parameters, path: str, n: Namer) -> list[str]:
    if p.get("ClusterName"):
        name = p["ClusterName"]
        return [name if name.startswith("arn:") else n.arn("sagemaker", f"cluster/{name}")]
    if p.get("TrainingJobName"):
        return [n.arn("sagemaker", f"training-job/{p['TrainingJobName']}")]
    return [p["ResourceArn"]] if p.get("ResourceArn") else []


def _ssm(action: str, p: Parameters, path: str, n: Namer) -> list[str]:
    if action == "StartSession":
        target = p["Target"]
        return [
            _session_target(target, n),
            *([_document(p["DocumentName"], n)] if p.get("DocumentName") else []),
        ]
    if action == "SendCommand":
        targets = [n.arn("ec2", f"instance/{one}") for one in p.get("InstanceIds") or []]
        return [_document(p["DocumentName"], n), *targets]
    if action in ("TerminateSession", "ResumeSession"):
        return [n.arn("ssm", f"session/{p['SessionId']}")]
    if p.get("Name"):
        return [n.arn("ssm", "parameter/" + p["Name"].lstrip("/"))]
    return []


def _ec2(action: str, p: Parameters, path: str, n: Namer) -> list[str]:
    if action != "TerminateInstances":
        return []
    ids = p.get("InstanceIds") or [
        value for key, value in p.items() if key.startswith("InstanceId")
    ]
    return [n.arn("ec2", f"instance/{one}") for one in ids]


def _session_target(target: str, n: Namer) -> str:
    """HyperPod's nodes are managed instances, as AWS's samples for HyperPod have it.

    An instance's id is the session's target.
    """
    if target.startswith(("sagemaker-cluster:", "mi-")):
        return n.arn("ssm", f"managed-instance/{target}")
    if target.startswith("ecs:"):
        return n.arn("ecs", "task/" + target.removeprefix("ecs:").replace("_", "/"))
    return n.arn("ec2", f"instance/{target}")


def _document(name: str, n: Namer) -> str:
    """Documents that AWS owns have no account in their ARN."""
    return (
        f"arn:aws:ssm:{n.region}::document/{name}"
        if name.startswith("AWS-")
        else n.arn("ssm", f"document/{name}")
    )


def _passed_roles(action: str, parameters: Mapping[str, Any]) -> list[str]:
    """HyperPod's instances act under the roles of their groups, a training job under its own."""
    if action == "CreateTrainingJob":
        return [parameters["RoleArn"]] if parameters.get("RoleArn") else []
    if action not in ("CreateCluster", "UpdateCluster"):
        return []
    groups = parameters.get("InstanceGroups") or []
    return sorted({group["ExecutionRole"] for group in groups if group.get("ExecutionRole")})


FINDERS: Mapping[str, arns.Finder] = {
    **arns.FINDERS,
    "ec2": _ec2,
    "sagemaker": _sagemaker,
    "ssm": _ssm,
}


def access(*, enforce: bool = True) -> Access:
    """Keys and decisions of a cloud that does these operations."""
    return Access(enforce=enforce, finders=FINDERS, passed_roles={"sagemaker": _passed_roles})

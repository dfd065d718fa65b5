"""The parts of AWS that only Trainyard's local cloud plays: clusters and sessions."""

from __future__ import annotations

from sam_on_moto.moto_patches import supported

OPERATIONS: supported.Operations = {
    **supported.OPERATIONS,
    "sagemaker": frozenset(
        [
            "AddTags",
            "BatchRebootClusterNodes",
            "BatchReplaceClusterNodes",
            "CreateCluster",
            "DeleteCluster",
            "DeleteTags",
            "DescribeCluster",
            "DescribeClusterEvent",
            "DescribeClusterNode",
            "ListClusterEvents",
            "ListClusterNodes",
            "ListClusters",
            "ListTags",
            "UpdateCluster",
        ]
    ),
    "ssm": frozenset(["ResumeSession", "StartSession", "TerminateSession"]),
}

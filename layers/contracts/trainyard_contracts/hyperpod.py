"""What is HyperPod's: its part of the spec of a cluster, and its event of a cluster's state.

Titles are the names that the API's clients know from the time when there was no other backend.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from typing_extensions import TypeAliasType

from .base import Lenient, Strict, matching, rule
from .cluster_base import ClusterBase, GroupBase, NodeRepair

#: HyperPod reboots a node in one to three minutes; a replacement takes twenty to thirty.
REPAIR_GRACE_SECONDS = 300
#: HyperPod said what it does to the node: it is given the time of a replacement.
REPAIR_SECONDS = 1800
CLUSTER_STATE_CHANGE = "SageMaker HyperPod Cluster State Change"
InstanceType = Annotated[
    str,
    matching(
        r"^ml\.[a-z0-9-]+\.[a-z0-9-]+$",
        "must be an instance type such as ml.c5.xlarge",
        max_length=64,
    ),
]


class EbsVolume(Strict):
    """A secondary EBS volume on every node of the group, mounted at /opt/sagemaker by HyperPod."""

    size_gib: int = Field(ge=1, le=16384, description="size in GiB")
    kms_key_id: str | None = None


class HyperPodGroup(GroupBase):
    """Nodes of one type and role. `count` serve jobs.

    `spares` stand by idle so that a lost node is replaced in seconds.
    """

    model_config = ConfigDict(title="InstanceGroup")

    instance_type: InstanceType
    threads_per_core: Literal[1, 2] | None = None
    ebs: EbsVolume | None = None
    training_plan_arn: str | None = None
    deep_health_checks: list[
        Literal["InstanceStress", "InstanceConnectivity", "MultiNodeTrainingValidation"]
    ] = Field(default_factory=list, max_length=3)

    @property
    def ec2_type(self) -> str:
        return self.instance_type.removeprefix("ml.")


InstanceGroup = TypeAliasType("InstanceGroup", HyperPodGroup)


class HyperPodClusterSpec(ClusterBase):
    """A cluster: one controller group, at least one worker group, and what every node needs."""

    model_config = ConfigDict(title="ClusterSpec")

    backend: Literal["hyperpod"] = "hyperpod"
    # Two at least, said by `_groups`, which knows what kind of group is missing.
    instance_groups: list[InstanceGroup] = Field(max_length=100, json_schema_extra={"minItems": 2})
    node_recovery: Literal["Automatic", "None"] = "Automatic"
    provisioning: Literal["Continuous", "AllAtOnce"] = "Continuous"
    slurm_setup: Literal["SlurmConfig", "ProvisioningParameters"] = "SlurmConfig"

    @rule
    def _slurm(self) -> HyperPodClusterSpec:
        if self.provisioning == "Continuous" and self.slurm_setup != "SlurmConfig":
            raise ValueError("slurmSetup: provisioning 'Continuous' needs slurmSetup 'SlurmConfig'")
        return self

    @property
    def node_repair(self) -> NodeRepair | None:
        if self.node_recovery == "None":
            return None
        return NodeRepair(REPAIR_GRACE_SECONDS, REPAIR_SECONDS)


class ClusterStateChange(Lenient):
    """detail of `SageMaker HyperPod Cluster State Change` of aws.sagemaker, with many nulls."""

    cluster_arn: str = Field(alias="ClusterArn")
    cluster_name: str = Field(alias="ClusterName")
    cluster_status: str = Field(alias="ClusterStatus")
    failure_message: str | None = Field(default=None, alias="FailureMessage")

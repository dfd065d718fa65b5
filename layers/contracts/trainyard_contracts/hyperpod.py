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
    kms_key_id: str | None = Field(
        default=None, description="id of a KMS key that encrypts the volume"
    )


class HyperPodGroup(GroupBase):
    """Nodes of one type and role. `count` serve jobs.

    `spares` stand by idle so that a lost node is replaced in seconds.
    """

    model_config = ConfigDict(title="InstanceGroup")

    instance_type: InstanceType = Field(description="of each of its nodes")
    threads_per_core: Literal[1, 2] | None = Field(
        default=None,
        description="1 turns multithreading off, 2 on; a type that has none takes 1 only; "
        "default: HyperPod decides",
    )
    ebs: EbsVolume | None = Field(default=None, description="a second volume for each of its nodes")
    training_plan_arn: str | None = Field(
        default=None, description="of the SageMaker training plan that reserved the nodes' capacity"
    )
    deep_health_checks: list[
        Literal["InstanceStress", "InstanceConnectivity", "MultiNodeTrainingValidation"]
    ] = Field(
        default_factory=list,
        max_length=3,
        description="what HyperPod does to the nodes when it makes the group",
    )

    @property
    def ec2_type(self) -> str:
        return self.instance_type.removeprefix("ml.")


InstanceGroup = TypeAliasType("InstanceGroup", HyperPodGroup)


class HyperPodClusterSpec(ClusterBase):
    """A cluster: one controller group, at least one worker group, and what every node needs."""

    model_config = ConfigDict(title="ClusterSpec")

    backend: Literal["hyperpod"] = Field(
        default="hyperpod", description="the service that makes the cluster"
    )
    # Two at least, said by `_groups`, which knows what kind of group is missing.
    instance_groups: list[InstanceGroup] = Field(
        max_length=100,
        json_schema_extra={"minItems": 2},
        description="the nodes: one controller, workers, and login nodes where people need them",
    )
    node_recovery: Literal["Automatic", "None"] = Field(
        default="Automatic",
        description="'Automatic': HyperPod itself reboots or replaces faulty nodes, too; 'None': "
        "only Trainyard asks for a lost node's replacement",
    )
    provisioning: Literal["Continuous", "AllAtOnce"] = Field(
        default="Continuous",
        description="'Continuous': HyperPod tries again and again to get a worker that failed; "
        "'AllAtOnce': it is not asked to",
    )
    slurm_setup: Literal["SlurmConfig", "ProvisioningParameters"] = Field(
        default="SlurmConfig",
        description="'SlurmConfig': HyperPod sets Slurm and the mount up before our lifecycle "
        "scripts run; 'ProvisioningParameters': our scripts do both",
    )

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

"""What is HyperPod's: its part of the spec of a cluster, and its event of a cluster's state.

Titles are the names that the API's clients know from the time when there was no other backend.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator
from typing_extensions import Self, TypeAliasType

from .base import Lenient, Strict, matching, rule
from .cluster_base import (
    MOST_ENTRIES,
    CapacityBase,
    GroupBase,
    Lacking,
    NodeRepair,
    Way,
)
from .cluster_parts import Mountable, Network, SharedFilesystem
from .slurm_cluster import SlurmCluster

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
TrainingPlanArn = Annotated[
    str,
    matching(
        r"^arn:aws[a-z-]*:sagemaker:[a-z0-9-]*:[0-9]{12}:training-plan/.+$",
        "must be the ARN of a training plan such as "
        "arn:aws:sagemaker:us-east-1:123456789012:training-plan/large-models",
        max_length=2048,
    ),
]
Market = Literal["on-demand", "spot", "plan"]


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
    market: Literal["on-demand", "spot"] = Field(
        default="on-demand",
        description="'spot': for less, and AWS may take the nodes back; worker groups only",
    )
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

    @rule
    def _markets(self) -> Self:
        if self.market == "spot" and self.role != "worker":
            raise ValueError("market: 'spot' is for worker groups only; remove it")
        if self.market == "spot" and self.training_plan_arn is not None:
            raise ValueError("market: a training plan's nodes are not spot; remove one of the two")
        return self

    @property
    def ec2_type(self) -> str:
        return self.instance_type.removeprefix("ml.")

    @property
    def on_demand(self) -> bool:
        return self.market == "on-demand" and self.training_plan_arn is None


class HyperPodCapacity(CapacityBase):
    """Other instances for the worker group."""

    model_config = ConfigDict(title="Capacity")

    instance_type: InstanceType | None = Field(
        default=None, description="of the worker group; default: the group's own"
    )
    instance_types: list[InstanceType] = Field(
        default_factory=list,
        max_length=20,
        description="in place of instanceType: several, tried one after the other",
    )
    market: Market | None = Field(
        default=None,
        description="'plan' needs trainingPlanArn; default: the group's own, or 'plan' with one",
    )
    training_plan_arn: TrainingPlanArn | None = Field(
        default=None, description="of the SageMaker training plan that reserved the capacity"
    )

    @rule
    def _plan(self) -> Self:
        if self.instance_type is not None and self.instance_types:
            raise ValueError("instanceTypes: give one of 'instanceType' and 'instanceTypes'")
        if self.market == "plan" and self.training_plan_arn is None:
            raise ValueError("trainingPlanArn: market 'plan' needs the plan's ARN")
        if self.market not in (None, "plan") and self.training_plan_arn is not None:
            raise ValueError(
                f"trainingPlanArn: its market is 'plan', and not '{self.market}'; remove one"
            )
        return self

    def groups(self, group: HyperPodGroup) -> list[HyperPodGroup]:
        """The worker group as this entry wants it, for each of its types."""
        if self.training_plan_arn is not None:
            group = group.changed(market="on-demand", training_plan_arn=self.training_plan_arn)
        elif self.market is not None:
            group = group.changed(market=self.market, training_plan_arn=None)
        own = self.instance_type or group.instance_type
        return [group.changed(instance_type=one) for one in self.instance_types or [own]]

    def words(self, group: HyperPodGroup) -> str:
        market = "training plan" if group.training_plan_arn else group.market.replace("-", " ")
        where = f", in {' or '.join(self.subnet_ids)}" if self.subnet_ids else ""
        return f"{group.instance_type}, {market}{where}"


InstanceGroup = TypeAliasType("InstanceGroup", HyperPodGroup)


class HyperPodClusterSpec(SlurmCluster):
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
    network: Network | None = Field(
        default=None,
        description="which the nodes join; default: the stack's SubnetIds and SecurityGroupIds",
    )
    shared_filesystem: SharedFilesystem = Field(
        description="where runs and checkpoints lie while the cluster lives"
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

    capacity: list[HyperPodCapacity] = Field(
        default_factory=list,
        max_length=MOST_ENTRIES,
        description="instances that are tried in this order, again and again until "
        "limits.clusterDeadlineSeconds of the run, or for an hour; "
        "default: those of instanceGroups",
    )

    @model_validator(mode="before")
    @classmethod
    def _filesystem(cls, given: Any) -> Any:
        if (
            isinstance(given, dict)
            and given.get("sharedFilesystem", given.get("shared_filesystem")) is None
        ):
            raise ValueError(
                "sharedFilesystem: is needed, for without it jobs on different nodes see none of "
                "each other's files; give dnsName and mountName of an FSx for Lustre filesystem "
                "(network.yaml makes one), or filesystem with the name of one of /v1/filesystems"
            )
        return given

    @rule
    def _groups(self) -> Self:
        names = [group.name for group in self.instance_groups]
        if len(set(names)) != len(names):
            raise ValueError("instanceGroups: every group needs a name of its own")
        controllers = [group for group in self.instance_groups if group.role == "controller"]
        if len(controllers) != 1 or controllers[0].count != 1:
            raise ValueError(
                "instanceGroups: exactly one group with role 'controller' and count 1 is needed"
            )
        if not any(group.role == "worker" for group in self.instance_groups):
            raise ValueError("instanceGroups: at least one group with role 'worker' is needed")
        return self

    @rule
    def _slurm(self) -> Self:
        if self.provisioning == "Continuous" and self.slurm_setup != "SlurmConfig":
            raise ValueError("slurmSetup: provisioning 'Continuous' needs slurmSetup 'SlurmConfig'")
        return self

    @rule
    def _capacity(self) -> Self:
        if self.capacity and len(self.workers()) > 1:
            raise ValueError(
                "capacity: it chooses the instances of one worker group, and this cluster has "
                f"{len(self.workers())}; leave one, or remove capacity"
            )
        for number, entry in enumerate(self.capacity):
            if entry.subnet_ids and self.network is None:
                raise ValueError(
                    f"capacity.{number}.subnetIds: they need security groups; "
                    "give network with subnetIds and securityGroupIds, too"
                )
        return self

    def ways_of(self, entry: CapacityBase) -> list[Way]:
        assert isinstance(entry, HyperPodCapacity)
        return [
            Way(self._with(entry, group), entry.words(group), entry.try_for_seconds)
            for worker in self.instance_groups
            if worker.role == "worker"
            for group in entry.groups(worker)
        ]

    def _with(self, entry: HyperPodCapacity, worker: HyperPodGroup) -> Self:
        groups = [worker if one.name == worker.name else one for one in self.instance_groups]
        network = self.network
        if network is not None and entry.subnet_ids:
            network = network.changed(subnet_ids=entry.subnet_ids)
        return self.changed(instance_groups=groups, network=network, capacity=[])

    def groups(self) -> Sequence[GroupBase]:
        return self.instance_groups

    def count_field(self, group: GroupBase) -> str:
        names = [known.name for known in self.instance_groups]
        return f"instanceGroups.{names.index(group.name)}.count"

    @property
    def shared_path(self) -> str:
        return self.shared_filesystem.mount_path

    @property
    def filesystem(self) -> str:
        """By DNS name and mount name, or by our name for it until it was looked up.

        Of an adopted cluster only the directory may be known: then nobody else has the same.
        """
        shared = self.shared_filesystem
        return shared.place or (f"filesystem/{shared.filesystem}" if shared.filesystem else "")

    def on_filesystem(self, named: str) -> Self:
        dns_name, _, mount_name = named.partition("/")
        try:
            moved = SharedFilesystem(
                dns_name=dns_name, mount_name=mount_name, mount_path=self.shared_path
            )
        except ValidationError:
            raise ValueError(
                "must be an FSx filesystem's DNS name and mount name, such as "
                "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com/abcdefgh"
            ) from None
        return self.changed(shared_filesystem=moved)

    def named_filesystems(self) -> Mapping[str, str]:
        name = self.shared_filesystem.filesystem
        return {"sharedFilesystem.filesystem": name} if name else {}

    def with_filesystems(self, found: Mapping[str, Mountable]) -> Self:
        name = self.shared_filesystem.filesystem
        if name is None or name not in found:
            return self
        return self.changed(shared_filesystem=self.shared_filesystem.found_as(found[name]))

    def as_asked(self) -> Self:
        return self.changed(shared_filesystem=self.shared_filesystem.as_asked())

    @property
    def subnets(self) -> Sequence[str]:
        own = self.network.subnet_ids if self.network is not None else []
        others = [subnet for entry in self.capacity for subnet in entry.subnet_ids or []]
        return tuple(dict.fromkeys([*own, *others]))

    @property
    def zonal(self) -> bool:
        return True

    def cannot(self) -> Sequence[str]:
        return (
            "No capacity block or reservation of EC2: a training plan reserves nodes.",
            "No nodes that come and go with jobs: all of them run as long as the cluster.",
        )

    def lacks_network(self) -> Lacking | None:
        if self.network is not None:
            return None
        return Lacking(
            "network",
            "is needed, for the stack names none; give subnetIds and securityGroupIds "
            "from which the sharedFilesystem is reached",
        )

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

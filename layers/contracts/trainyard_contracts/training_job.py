"""What a SageMaker training job is: its part of the spec, and the event of its state.

A job's nodes live for the job; its instances, image, data and limits are fixed when it is made.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field
from typing_extensions import Self

from . import training_job_libraries as libraries
from . import training_job_rules as rules
from .base import Lenient, rule
from .cluster_base import MOST_ENTRIES, CapacityBase, ClusterBase, GroupBase, Way
from .inputs import S3Prefix
from .training_job_capacity import TrainingJobCapacity
from .training_job_data import (
    Channel,
    Checkpoints,
    InstanceGroup,
    JobNetwork,
    MetricDefinition,
    Spot,
)
from .training_job_launch import Distribution, Framework
from .training_job_words import (
    GroupName,
    ImageUri,
    KmsKey,
    RoleArn,
    TagKey,
    TagValue,
    TrainingInstanceType,
    TrainingPlanArn,
)

TRAINING_JOB_STATE_CHANGE = "SageMaker Training Job State Change"
#: 28 days, AWS's own limit (StoppingCondition in botocore's model).
LONGEST_RUN_SECONDS = 2_419_200
_NO_AGENT = "no agent is on the nodes of a training job"
#: Fields of a run's spec that a training job cannot do, each with what to do instead.
NOT_FOR_RUNS: Mapping[str, str] = {
    "cluster.spec.role": "Trainyard makes the role that the job acts under; remove it",
    "cluster.spec.networkIsolation": "the nodes must reach S3, EventBridge and Secrets Manager, "
    "where checkpoints and events go; remove it, and give a network without a way out",
    "cluster.spec.checkpoints": "Trainyard keeps checkpoints in the data bucket by itself, whole "
    "and verified; remove it",
    "cluster.spec.environment": "the container's image brings its Python; name an image that has "
    "what the job needs",
    "job.partition": "a training job has no partitions; remove it",
    "job.image": "the container is that of cluster.spec.image or cluster.spec.framework; remove it",
    "job.pythonEnvironment": "the nodes share no filesystem to build it on; name an image "
    "(cluster.spec.image) that has the packages",
    "checkpoint.directory": "checkpoints lie in the data bucket; remove it",
    "progress": f"{_NO_AGENT} to read logs; let the program report its steps by trainyard_job",
}


class JobGroup(GroupBase):
    """Nodes of one type in a training job."""

    name: GroupName = Field(description="of the group; AWS takes more characters than we elsewhere")
    count: int = Field(ge=1, description="nodes")
    paid_otherwise: bool = Field(default=False, description="spot, or a training plan")

    @property
    def on_demand(self) -> bool:
        return not self.paid_otherwise


class TrainingJobClusterSpec(ClusterBase):
    """The nodes of one training job, and what AWS gives and does to them."""

    backend: Literal["training-job"] = Field(
        description="the service that makes the nodes: a SageMaker training job"
    )
    role: RoleArn | None = Field(
        default=None, description="that the job acts under; default: the stack's own"
    )
    instance_type: TrainingInstanceType | None = Field(
        default=None, description="of every node; or give instanceGroups"
    )
    instance_count: int | None = Field(default=None, ge=1, description="nodes; beside instanceType")
    instance_groups: list[InstanceGroup] = Field(
        default_factory=list,
        max_length=5,
        description="nodes of several types; instead of instanceType and instanceCount",
    )
    volume_size_gib: int = Field(
        default=30,
        ge=1,
        description="of each node's volume; a type with disks of its own ignores it",
    )
    volume_kms_key_id: KmsKey | None = Field(
        default=None,
        description="encrypts the volumes; AWS refuses it for types with disks of their own",
    )
    image: ImageUri | None = Field(default=None, description="the container; or give framework")
    framework: Framework | None = Field(
        default=None, description="which of AWS's framework images; instead of image"
    )
    metrics_time_series: bool | None = Field(
        default=None,
        description="whether AWS keeps the job's metrics as time series; default: true with "
        "framework, and AWS's own default with image",
    )
    metric_definitions: list[MetricDefinition] = Field(
        default_factory=list, max_length=40, description="numbers that AWS reads in the job's log"
    )
    distribution: Distribution = Field(
        default=Distribution(), description="how the program is started"
    )
    input_mode: Literal["File", "Pipe", "FastFile"] = Field(
        default="File", description="how data of S3 come to the nodes"
    )
    channels: list[Channel] = Field(
        default_factory=list, max_length=20, description="the data that the program reads"
    )
    network: JobNetwork | None = Field(
        default=None, description="which the nodes join; default: AWS's own"
    )
    network_isolation: bool = Field(
        default=False, description="the container reaches its peers only"
    )
    inter_container_encryption: bool = Field(
        default=False, description="what the nodes say to each other is encrypted, and slower"
    )
    warm_pool_seconds: int | None = Field(
        default=None,
        ge=1,
        le=21600,
        description="nodes are kept, and billed, so long after the job, for the next one like it",
    )
    spot: Spot | None = Field(default=None, description="managed spot training; default: on demand")
    checkpoints: Checkpoints | None = Field(
        default=None, description="files that AWS keeps in S3 while the job runs"
    )
    retry_attempts: int | None = Field(
        default=None, ge=1, le=30, description="AWS's own retries after its internal errors"
    )
    training_plan_arn: TrainingPlanArn | None = Field(
        default=None, description="of the training plan that reserved the nodes"
    )
    max_runtime_seconds: int = Field(
        default=86400, ge=1, le=LONGEST_RUN_SECONDS, description="after which AWS ends the job"
    )
    output_kms_key_id: KmsKey | None = Field(
        default=None, description="encrypts what the job writes to S3"
    )
    output_compression: Literal["GZIP", "NONE"] | None = Field(
        default=None, description="of what the job writes to S3; AWS's default is GZIP"
    )
    tags: dict[TagKey, TagValue] = Field(
        default_factory=dict, max_length=40, description="of the job at AWS, beside ours"
    )
    capacity: list[TrainingJobCapacity] = Field(
        default_factory=list,
        max_length=MOST_ENTRIES,
        description="nodes that are tried in this order while AWS has none, again and again until "
        "limits.clusterDeadlineSeconds of the run; default: as instanceType says",
    )

    @rule
    def _nodes(self) -> Self:
        if self.instance_groups and (self.instance_type or self.instance_count):
            raise ValueError(
                "instanceGroups: exclude instanceType and instanceCount; give one or the other"
            )
        if not self.instance_groups and not self.instance_type:
            raise ValueError(
                "instanceType: is needed with instanceCount, such as ml.p4d.24xlarge and 2; "
                "or instanceGroups"
            )
        if self.instance_type and self.instance_count is None:
            raise ValueError("instanceCount: is needed beside instanceType, such as 2")
        return self

    @rule
    def _images(self) -> Self:
        if (self.image is None) == (self.framework is None):
            raise ValueError(
                "image: give either image (any URI), or framework (name, version, pythonVersion)"
            )
        return self

    @rule
    def _launch(self) -> Self:
        types, framework, how = self.launch_types, self.framework, self.distribution
        _first(
            rules.group_of(how, self.instance_groups),
            _grouped(framework, how, bool(self.instance_groups)),
            rules.trainium(types, how, framework),
            rules.launcher(how, framework),
            rules.torchrun(types, how, framework),
            libraries.data_parallel(types, how, framework),
            libraries.model_parallel(types, how, framework, self.launch_nodes),
            libraries.launcher_in(self.image, how),
            libraries.smp_parameters(how),
        )
        return self

    @rule
    def _data(self) -> Self:
        _first(
            rules.channels(self.channels, self.network_isolation, self.instance_groups),
            rules.pipe_only(self.channels, self.input_mode),
        )
        mounted = [one.name for one in self.channels if one.file_system]
        if mounted and self.network is None:
            raise ValueError(
                f"network: channel '{mounted[0]}' is a filesystem, which is reached from its own "
                "network only; give subnetIds and securityGroupIds"
            )
        return self

    @rule
    def _times(self) -> Self:
        if self.spot is not None and self.spot.max_wait_seconds < self.max_runtime_seconds:
            raise ValueError(
                f"spot.maxWaitSeconds: {self.spot.max_wait_seconds} is less than maxRuntimeSeconds "
                f"({self.max_runtime_seconds}); it counts the waits and the work together"
            )
        if self.warm_pool_seconds is not None and self.spot is not None:
            raise ValueError("warmPoolSeconds: AWS keeps no spot nodes; remove it, or spot")
        if self.warm_pool_seconds is not None and self.instance_groups:
            raise ValueError(
                "warmPoolSeconds: AWS keeps no nodes of several types; remove it, or use "
                "instanceType"
            )
        return self

    @rule
    def _capacity(self) -> Self:
        if self.capacity and self.instance_groups:
            raise ValueError(
                "capacity: it chooses the one type of a job's nodes, and this job has "
                "instanceGroups; use instanceType and instanceCount, or remove capacity"
            )
        for number, entry in enumerate(self.capacity):
            if entry.subnet_ids and self.network is None:
                raise ValueError(
                    f"capacity.{number}.subnetIds: they need security groups; "
                    "give network with subnetIds and securityGroupIds, too"
                )
        return self

    def ways_of(self, entry: CapacityBase) -> list[Way]:
        assert isinstance(entry, TrainingJobCapacity)
        if self.instance_type is None:
            return []
        specs = [self._with(entry, one) for one in entry.types(self.instance_type)]
        return [Way(one, _way_words(one, entry), entry.try_for_seconds) for one in specs]

    def _with(self, entry: TrainingJobCapacity, instance_type: str) -> Self:
        update: dict[str, Any] = {"instance_type": instance_type, "capacity": []}
        if self.network is not None:
            update["network"] = self.network.changed(**entry.where())
        if entry.paid is not None:
            known = self.spot.max_wait_seconds if self.spot is not None else None
            wait = entry.wait(known, self.max_runtime_seconds)
            spot = entry.paid == "spot"
            update["spot"] = Spot(max_wait_seconds=wait) if spot else None
            update["training_plan_arn"] = entry.training_plan_arn
            update["warm_pool_seconds"] = None if spot else self.warm_pool_seconds
        return self.changed(**update)

    @property
    def subnets(self) -> Sequence[str]:
        own = self.network.subnet_ids if self.network is not None else []
        others = [subnet for entry in self.capacity for subnet in entry.subnet_ids or []]
        return tuple(dict.fromkeys([*own, *others]))

    @property
    def host_groups(self) -> list[InstanceGroup]:
        """The nodes as groups, also where there is one type only."""
        if self.instance_groups or self.instance_type is None:
            return self.instance_groups
        one = InstanceGroup(
            name="nodes", instance_type=self.instance_type, instance_count=self.instance_count or 1
        )
        return [one]

    def groups(self) -> Sequence[GroupBase]:
        paid_otherwise = self.spot is not None or self.training_plan_arn is not None
        return [
            JobGroup(
                name=one.name,
                role="worker",
                instance_type=one.instance_type,
                count=one.instance_count,
                paid_otherwise=paid_otherwise,
            )
            for one in self.host_groups
        ]

    def count_field(self, group: GroupBase) -> str:
        names = [one.name for one in self.instance_groups]
        return f"instanceGroups.{names.index(group.name)}.count" if names else "instanceCount"

    @property
    def shared_path(self) -> str:
        """Each node has its own; there is no filesystem that they share."""
        return "/opt/ml"

    @property
    def filesystem(self) -> str:
        """What a run makes lies in the data bucket, and outlives every cluster."""
        return "s3"

    @property
    def filesystems(self) -> Collection[str]:
        return {one.file_system.file_system_id for one in self.channels if one.file_system}

    def reached_filesystems(self) -> Mapping[str, str]:
        return {
            f"channels.{at}.fileSystem.fileSystemId": one.file_system.file_system_id
            for at, one in enumerate(self.channels)
            if one.file_system is not None and one.file_system.type == "FSxLustre"
        }

    def read_buckets(self) -> Mapping[str, str]:
        channels = {
            f"channels.{at}.s3.uri": S3Prefix.of(one.s3.uri).bucket
            for at, one in enumerate(self.channels)
            if one.s3 is not None
        }
        return {**super().read_buckets(), **channels}

    @property
    def zonal(self) -> bool:
        return any(one.file_system is not None for one in self.channels)

    def cannot(self) -> Sequence[str]:
        return (
            "No spares: a lost node ends the job, and the next attempt is another job.",
            "No node can be left out, replaced or rebooted: AWS chooses them.",
            "No cluster that people or other runs use, and no logins.",
        )

    @property
    def nodes_come_with_jobs(self) -> bool:
        return True

    @property
    def scheduler(self) -> str:
        return "SageMaker"

    @property
    def stop_seconds(self) -> int:
        """AWS waits two minutes for the program, and then uploads what it left."""
        return 900

    @property
    def longest_job_seconds(self) -> int:
        return self.max_runtime_seconds

    def not_for_runs(self) -> Mapping[str, str]:
        return NOT_FOR_RUNS

    @property
    def launch_types(self) -> list[str]:
        """Types of the nodes that the distribution runs on."""
        named = self.distribution.instance_group
        return [one.instance_type for one in self.host_groups if named in (None, one.name)]

    @property
    def launch_nodes(self) -> int:
        """How many nodes the distribution runs on."""
        named = self.distribution.instance_group
        return sum(one.instance_count for one in self.host_groups if named in (None, one.name))


def _way_words(spec: TrainingJobClusterSpec, entry: TrainingJobCapacity) -> str:
    market = "training plan" if spec.training_plan_arn else "spot" if spec.spot else "on demand"
    where = f", in {' or '.join(entry.subnet_ids)}" if entry.subnet_ids else ""
    return f"{spec.instance_type}, {market}{where}"


def _first(*problems: str | None) -> None:
    for problem in problems:
        if problem:
            raise ValueError(problem)


def _grouped(framework: Framework | None, how: Distribution, groups: bool) -> str | None:
    """The SDK names a distribution's group to PyTorch and TensorFlow only."""
    if groups and framework and framework.name == "mxnet" and how.kind != "none":
        return "instanceGroups: AWS's image of mxnet knows no groups; use instanceType"
    return None


class TrainingJobStateChange(Lenient):
    """detail of `SageMaker Training Job State Change` of aws.sagemaker; times are ms in strings."""

    training_job_name: str = Field(alias="TrainingJobName")
    training_job_arn: str = Field(default="", alias="TrainingJobArn")
    training_job_status: str = Field(alias="TrainingJobStatus")
    secondary_status: str | None = Field(default=None, alias="SecondaryStatus")
    failure_reason: str | None = Field(default=None, alias="FailureReason")
    secondary_status_transitions: list[Mapping[str, Any]] | None = Field(
        default=None, alias="SecondaryStatusTransitions"
    )

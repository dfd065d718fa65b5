"""What every cluster's spec has, and what others ask of it, whatever backend it lives in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, StringConstraints, ValidationError
from typing_extensions import Self

from . import spec_rules
from .base import Name, Strict, matching, rule
from .cluster_parts import Mountable, PythonEnvironment, SecretName, SubnetId
from .inputs import S3Prefix, S3Source
from .labels import Labels


class GroupBase(Strict):
    """Nodes of one type and role. `count` serve jobs.

    `spares` stand by idle so that a lost node is replaced in seconds.
    """

    name: Name = Field(description="of the group; no other group of the cluster has it")
    role: Literal["controller", "worker", "login"] = Field(
        description="'controller' runs Slurm's controller and the agent that speaks for the "
        "cluster; 'worker' runs jobs; 'login' is for people"
    )
    instance_type: str = Field(description="of each of its nodes")
    count: int = Field(ge=1, le=6758, description="nodes; of a controller, 1")
    spares: int = Field(
        default=0, ge=0, le=100, description="nodes besides that stand by; worker groups only"
    )
    partition: Name | None = Field(
        default=None, description="Slurm partition, worker groups only; default 'main'"
    )

    @rule
    def _roles(self) -> GroupBase:
        if self.role != "worker" and self.spares:
            raise ValueError("spares are for worker groups only; set spares to 0")
        if self.role != "worker" and self.partition is not None:
            raise ValueError("partition is for worker groups only; remove it")
        return self

    @property
    def ec2_type(self) -> str:
        """The type as EC2 names it."""
        return self.instance_type

    @property
    def on_demand(self) -> bool:
        """Whether it is billed at the price list's price."""
        return True


#: A job that must stop is given so long.
STOP_SECONDS = 120
#: Of a spec's list of other capacity.
MOST_ENTRIES = 20
#: A way's turn, where its spec does not say how long it is.
TRY_SECONDS = 600


class NodeRepair(NamedTuple):
    """How long a backend that repairs nodes by itself is waited for before another is asked for."""

    grace_seconds: int  # from the loss of the node
    announced_seconds: int  # from the moment when the backend says that it repairs this node


class CapacityBase(Strict):
    """One entry of a spec's list; what it does not name is as in the rest of the spec.

    A backend's entry adds what its instances are chosen by.
    """

    subnet_ids: list[SubnetId] | None = Field(
        default=None,
        min_length=1,
        max_length=16,
        description="in place of network.subnetIds, with the same security groups; the shared "
        "filesystem must be reached from them",
    )
    may_leave_zone: bool = Field(
        default=False,
        description="whether subnetIds may lie in other zones than those of the rest of the spec, "
        "where its filesystem is: from there it is slower, and AWS bills the traffic",
    )
    try_for_seconds: int = Field(
        default=TRY_SECONDS,
        ge=0,
        le=86400,
        description="from AWS's first word that it has no such capacity until the next entry's "
        "turn; where AWS gives up by itself, that comes at once",
    )


class Way(NamedTuple):
    """One of the ways in which a cluster may be made."""

    spec: ClusterBase  # which names no other way
    words: str  # what is particular about it, such as 'ml.p5.48xlarge, spot'
    try_for_seconds: int  # from AWS's first word that it has no such capacity


class Lacking(NamedTuple):
    """A field that must be given, or given otherwise, and a sentence about it."""

    field: str
    words: str


class ClusterBase(Strict, ABC):
    """The fields that every backend's spec has, and the questions that each one answers.

    A backend's spec adds its own fields, and says its name in `backend`. Code that serves every
    backend asks the questions and never for a backend's field.
    """

    name: Name = Field(
        description="of the cluster, at AWS too; made for a run, it gets the end of the run's id"
    )
    labels: Labels = Field(default_factory=dict)
    backend: str
    region: (
        Annotated[
            str,
            matching(
                r"^[a-z]{2,}(-[a-z]+)+-\d{1,2}$", "must be the name of a region, as us-east-1"
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="that of the stack, which makes clusters in its own region only; another one "
        "is refused",
    )
    capacity: Sequence[CapacityBase] = Field(
        default_factory=list, description="other ways to make it, where the backend knows any"
    )
    job_secrets: list[SecretName] = Field(
        default_factory=list,
        max_length=32,
        description="secrets of Secrets Manager that jobs on it may ask for (job.secrets); their "
        "names must match the stack's parameter JobSecrets",
    )
    job_inputs: list[S3Source] = Field(
        default_factory=list,
        max_length=16,
        description="prefixes of buckets that its runs may copy from (inputs), such as "
        "s3://BUCKET/PREFIX/; the buckets' names must match the stack's parameter MountableBuckets",
    )
    environment: PythonEnvironment = Field(
        default=PythonEnvironment(), description="the Python that jobs run with"
    )
    idle_limit_seconds: int = Field(
        default=1800, ge=60, le=604800, description="deleted when no run used it for this long"
    )
    hourly_usd: float | None = Field(
        default=None,
        gt=0,
        le=1_000_000,
        description="what an hour of all its nodes costs in USD; default: AWS's price list. Give "
        "it where the list does not say (spot, plans), or where you pay another price",
    )
    tags: dict[
        Annotated[str, StringConstraints(min_length=1, max_length=128)],
        Annotated[str, StringConstraints(max_length=256)],
    ] = Field(default_factory=dict, max_length=40, description="of the cluster at AWS, beside ours")

    @rule
    def _tags(self) -> ClusterBase:
        if problem := spec_rules.tags_not_ours(self.tags):
            raise ValueError(f"tags: {problem}")
        return self

    @rule
    def _other_ways(self) -> ClusterBase:
        if self.capacity and type(self).ways_of is ClusterBase.ways_of:
            raise ValueError(
                f"capacity: a cluster of backend '{self.backend}' is made in one way only; "
                "remove it"
            )
        for number, entry in enumerate(self.capacity):
            for way in self.ways_of(entry):
                if problem := _refusal(way.spec):
                    raise ValueError(f"capacity.{number}: with this entry, {problem}")
        return self

    @abstractmethod
    def groups(self) -> Sequence[GroupBase]:
        """All its nodes."""

    @abstractmethod
    def count_field(self, group: GroupBase) -> str:
        """The field that says how many nodes the group has for jobs."""

    @property
    @abstractmethod
    def shared_path(self) -> str:
        """Where every node has the shared filesystem."""

    @property
    @abstractmethod
    def filesystem(self) -> str:
        """Which shared filesystem it is, the same for all clusters that have the same files.

        '' if it is made with the cluster, so that nobody else has it.
        """

    def on_filesystem(self, named: str) -> Self:
        """The same with another shared filesystem.

        Raises ValueError with what would be right.
        """
        raise ValueError(
            f"a cluster of backend '{self.backend}' cannot be given another filesystem; submit a "
            "new run with startFrom"
        )

    @property
    def filesystems(self) -> Collection[str]:
        """Each filesystem that its nodes mount: its id, or as `filesystem` has it."""
        return {self.filesystem} - {""}

    @property
    def archive(self) -> str:
        """s3://BUCKET/PREFIX/ that a filesystem made with it is exported to before its deletion.

        '' where there is none: what is made with it goes with it.
        """
        return ""

    def named_filesystems(self) -> Mapping[str, str]:
        """Names of filesystems of /v1/filesystems that it mounts, by the field that gives each."""
        return {}

    def with_filesystems(self, found: Mapping[str, Mountable]) -> Self:
        """The same with what these filesystems are, by their names."""
        return self

    def as_asked(self) -> Self:
        """The same without what `with_filesystems` added."""
        return self

    def reached_filesystems(self) -> Mapping[str, str]:
        """Ids of filesystems of FSx that its nodes mount, by the field that gives each so."""
        return {}

    @property
    def filesystems_are_looked_at(self) -> bool:
        """Whether the backend itself refuses one that is not there, and takes one that is far."""
        return False

    @property
    def subnet_fields(self) -> str:
        """The fields that name `mounting_subnets`, for people."""
        return "network.subnetIds"

    @property
    def subnets(self) -> Sequence[str]:
        """Where its nodes may be, whichever way it is made; () = the stack's."""
        return ()

    @property
    def mounting_subnets(self) -> Sequence[str]:
        """Those and all others from which something of it mounts its filesystems."""
        return self.subnets

    @property
    def zonal(self) -> bool:
        """Whether its nodes mount a filesystem that lies in one zone."""
        return False

    def cannot(self) -> Sequence[str]:
        """What other backends do for a run and this one does not, in sentences."""
        return ()

    def lacks_network(self) -> Lacking | None:
        """What must be given if the stack names no network for its clusters."""
        return None

    def read_buckets(self) -> Mapping[str, str]:
        """Buckets that its nodes may read, by the field that names each."""
        return {
            f"jobInputs.{at}": S3Prefix.of(source).bucket
            for at, source in enumerate(self.job_inputs)
        }

    @property
    def changeable(self) -> Collection[str]:
        """Fields, by their names here, of which a cluster that is there may get another value."""
        return frozenset()

    def lost_by(self, wanted: ClusterBase) -> Lacking | None:
        """The field by which a change to this spec would delete files; None if all stay."""
        return None

    @property
    def waits_for_users(self) -> bool:
        """Whether a change waits until nobody uses the cluster; else it is refused then."""
        return False

    @property
    def ways(self) -> list[Way]:
        """The ways in which the cluster is tried, in order; [] where there is one only."""
        return [way for entry in self.capacity for way in self.ways_of(entry)]

    def ways_of(self, entry: CapacityBase) -> Sequence[Way]:
        """Those that one entry of the list names; [] where the backend knows none."""
        return []

    @property
    def in_words(self) -> str:
        """What it is made of, for people who compare it with others."""
        return ", ".join(sorted(self.instance_types()))

    def may_copy(self, source: S3Prefix) -> bool:
        """Whether the spec lets the nodes read these objects."""
        return any(S3Prefix.of(given).holds(source) for given in self.job_inputs)

    def mounted(self, source: S3Prefix) -> str | None:
        """Where every node has these objects mounted."""
        return None

    def mount_paths(self) -> list[str]:
        """Where nodes have something mounted besides the shared filesystem."""
        return []

    @property
    def nodes_come_with_jobs(self) -> bool:
        """Whether each job brings nodes of its own, and takes them with it at its end.

        Then no agent speaks for the cluster between jobs, and the backend says when a job is over.
        """
        return False

    @property
    def scheduler(self) -> str:
        """What jobs are handed to, as people know it."""
        return "Slurm"

    @property
    def stop_seconds(self) -> int:
        """How long a job may take to end once it must stop.

        A checkpoint at the next step boundary, then SIGKILL, and what comes after its program.
        """
        return STOP_SECONDS

    @property
    def longest_job_seconds(self) -> int | None:
        """After which the backend ends a job by itself; None if it does not."""
        return None

    def not_for_runs(self) -> Mapping[str, str]:
        """Fields of a run's spec that mean nothing here, each with what to do instead."""
        return {}

    @property
    def node_repair(self) -> NodeRepair | None:
        """How the backend repairs or replaces broken nodes by itself; None if it does not."""
        return None

    def partition_of(self, group: GroupBase) -> str | None:
        """The partition of a worker group; None where the backend has none."""
        return group.partition

    def partition_of_node(self, node: str) -> str | None:
        """The partition of a Slurm node, where its name says so."""
        return None

    def workers(self, partition: str | None = None) -> list[GroupBase]:
        """Groups that a job may use in `partition` (all worker groups if None)."""
        return [
            group
            for group in self.groups()
            if group.role == "worker" and partition in (None, self.partition_of(group))
        ]

    @property
    def partitions(self) -> list[str]:
        """Partitions of the worker groups.

        A cluster may have others besides, which hold login nodes, too.
        """
        return sorted(filter(None, {self.partition_of(group) for group in self.workers()}))

    def instance_types(self, partition: str | None = None) -> set[str]:
        """Types of the nodes that a job may use in `partition` (all worker groups if None)."""
        return {group.instance_type for group in self.workers(partition)}

    def worker_count(self, partition: str | None = None) -> int:
        """Nodes that a job may use at once in `partition`; spares are not counted."""
        return sum(group.count for group in self.workers(partition))

    def standing_by(self, nodes: int, partition: str | None = None) -> int:
        """Nodes that run idle beside a job of so many, ready to take a lost one's place."""
        return sum(group.spares for group in self.workers(partition))


def _refusal(spec: ClusterBase) -> str | None:
    """What the rules of its backend say against a spec that was put together; None if nothing."""
    try:
        type(spec).model_validate(spec.model_dump(by_alias=True, exclude_unset=True))
    except ValidationError as refused:
        first = refused.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        return f"{field}{': ' if field else ''}{first['msg'].removeprefix('Value error, ')}"
    return None

"""What is ParallelCluster's: the spec of a cluster that its API makes, with Slurm on EC2."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from pydantic import Field
from typing_extensions import Self

from .base import rule
from .cluster_base import MOST_ENTRIES, CapacityBase, ClusterBase, GroupBase, Lacking, Way
from .cluster_parts import Mountable
from .ec2_types import known
from .parallelcluster_capacity import ParallelClusterCapacity
from .parallelcluster_parts import HeadNode, Image, LoginPool, PolicyArn, S3Access
from .parallelcluster_queues import Queue, queue_of_node
from .parallelcluster_storage import SharedStorage
from .slurm_cluster import SlurmCluster
from .spec_rules import mounts_that_meet

#: Where a node's own disks are mounted, in the queues that ask for it.
LOCAL_SCRATCH = "/local_scratch"
#: Storage of one kind, made with the cluster or there already (3.16.1: MAX_NEW_STORAGE_COUNT,
#: MAX_EXISTING_STORAGE_COUNT, MAX_EBS_COUNT).
NEW_AT_MOST = {"fsx": 1, "efs": 1, "ebs": 5}
EXISTING_AT_MOST = {"fsx": 20, "efs": 20, "ebs": 5}
#: ParallelCluster takes 60. A run's own cluster gets a hyphen and six letters of the run's id.
NAME_AT_MOST = 53
#: Fields that an update may change, as far as ParallelCluster lets it; `region` may be named or
#: left out, and is the stack's.
CHANGEABLE = frozenset({
    "queues", "image", "head_node", "login_nodes", "iam_policies", "idle_limit_seconds",
    "update_while_used", "region",
})  # fmt: skip
#: The name of the head node's group; no queue can have it, for it is no lower-case name.
HEAD_NODE = "HeadNode"


class ParallelClusterSpec(SlurmCluster):
    """A head node, queues of workers, and what they share, in the stack's own region."""

    backend: Literal["parallelcluster"] = Field(description="the service that makes the cluster")
    image: Image = Field(default=Image(), description="what the nodes boot")
    head_node: HeadNode = Field(description="runs Slurm's controller and the cluster's agent")
    queues: list[Queue] = Field(
        min_length=1, max_length=50, description="workers; each is a partition of its name"
    )
    login_nodes: list[LoginPool] = Field(
        default_factory=list, max_length=10, description="nodes where people work; default: none"
    )
    shared_storage: list[SharedStorage] = Field(
        min_length=1,
        max_length=20,
        description="what all nodes have; runs and checkpoints lie on the first one",
    )
    s3_access: list[S3Access] = Field(
        default_factory=list,
        max_length=16,
        description="buckets that head node and workers may reach",
    )
    iam_policies: list[PolicyArn] = Field(
        default_factory=list,
        max_length=8,
        description="policies of all nodes beside our own; the account's are named "
        "parallelcluster...",
    )
    update_while_used: Literal["refuse", "wait"] = Field(
        default="refuse",
        description="what an update does while runs or people's jobs use the cluster: it is "
        "refused, or waits until they ended",
    )

    capacity: list[ParallelClusterCapacity] = Field(
        default_factory=list,
        max_length=MOST_ENTRIES,
        description="how a queue is made instead, tried in this order, again and again until "
        "limits.clusterDeadlineSeconds of the run, or for an hour; default: as queues says",
    )

    @rule
    def _name(self) -> Self:
        if not self.name[0].isalpha():
            raise ValueError(
                f"name: '{self.name}' begins with a digit; ParallelCluster wants a letter first"
            )
        if len(self.name) > NAME_AT_MOST:
            raise ValueError(
                f"name: has {len(self.name)} characters; give {NAME_AT_MOST} at most, for "
                "ParallelCluster takes 60 with those that a run's own cluster gets"
            )
        if len(self.name) < 2:
            raise ValueError("name: ParallelCluster wants two characters at least; give a longer")
        return self

    @rule
    def _names(self) -> Self:
        queues = [queue.name for queue in self.queues]
        for field, names in {
            "queues": queues,
            "loginNodes": [pool.name for pool in self.login_nodes] + queues,
            "sharedStorage": [storage.name for storage in self.shared_storage],
        }.items():
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise ValueError(f"{field}: '{twice}' is there twice; give each a name of its own")
        return self

    @rule
    def _own_tags(self) -> Self:
        taken = [key for key in self.tags if key.lower().startswith("parallelcluster:")]
        if taken:
            raise ValueError(
                f"tags: '{taken[0][:100]}' begins with 'parallelcluster:', which ParallelCluster "
                "sets itself; choose another key"
            )
        return self

    @rule
    def _processors(self) -> Self:
        """Head node and workers share /opt, so they must have one architecture."""
        head = known([self.head_node.instance_type])
        for field, part, name in self._other_types():
            if head and (type_ := known([name])) and type_[0].architecture != head[0].architecture:
                raise ValueError(
                    f"{field}: {name} of '{part}' is {type_[0].architecture}, and the head node's "
                    f"{head[0].name} is {head[0].architecture}; use types of one architecture"
                )
        return self

    @rule
    def _storage(self) -> Self:
        paths = [storage.mount_path for storage in self.shared_storage]
        scratch = [LOCAL_SCRATCH] if any(queue.local_scratch for queue in self.queues) else []
        if problem := mounts_that_meet([*paths, *super().mount_paths(), *scratch]):
            raise ValueError(f"sharedStorage: {problem}")
        for kind in ("fsx", "efs", "ebs"):
            mine = [storage for storage in self.shared_storage if storage.kind == kind]
            there = sum(storage.existing is not None for storage in mine)
            if len(mine) - there > NEW_AT_MOST[kind] or there > EXISTING_AT_MOST[kind]:
                raise ValueError(
                    f"sharedStorage: ParallelCluster makes {NEW_AT_MOST[kind]} {kind} at most, and "
                    f"takes {EXISTING_AT_MOST[kind]} that exist; remove what is more"
                )
        ids = [storage.existing for storage in self.shared_storage if storage.existing]
        if twice := next((one for one in ids if ids.count(one) > 1), None):
            raise ValueError(f"sharedStorage: '{twice}' is there twice; give it once")
        return self

    @rule
    def _one_zone(self) -> Self:
        """An FSx filesystem that is made lies in one zone, that of the workers' one subnet."""
        made, subnets = self._made_fsx, self._queue_subnets
        if made and len(subnets) > 1:
            raise ValueError(
                f"queues: the filesystem '{made[0].name}' is made in one subnet, and the queues "
                f"have {len(subnets)} ({', '.join(sorted(subnets))}); give all queues one subnet, "
                "or name a filesystem that exists (sharedStorage fsx.fileSystemId)"
            )
        return self

    @rule
    def _capacity_queues(self) -> Self:
        for number, entry in enumerate(self.capacity):
            if problem := entry.named(self.queues):
                raise ValueError(f"capacity.{number}.{problem}")
        return self

    def ways_of(self, entry: CapacityBase) -> list[Way]:
        assert isinstance(entry, ParallelClusterCapacity)
        if entry.named(self.queues):
            return []
        name = entry.queue or self.queues[0].name
        queues = [entry.changes(one) if one.name == name else one for one in self.queues]
        changed = next(one for one in queues if one.name == name)
        head = entry.head(self.head_node)
        spec = self.changed(queues=queues, head_node=head, capacity=[])
        return [Way(spec, entry.words(changed), entry.try_for_seconds)]

    def groups(self) -> Sequence[GroupBase]:
        """The head node is the controller, and each queue is a group of its partition."""
        head = GroupBase(
            name=HEAD_NODE,
            role="controller",
            instance_type=self.head_node.instance_type,
            count=1,
        )
        return [head, *map(_workers, self.queues), *map(_login, self.login_nodes)]

    def instance_types(self, partition: str | None = None) -> set[str]:
        queues = [queue for queue in self.queues if partition in (None, queue.name)]
        return {name for queue in queues for name in queue.instance_types}

    def partition_of_node(self, node: str) -> str | None:
        return queue_of_node(node)

    def count_field(self, group: GroupBase) -> str:
        return f"queues.{[queue.name for queue in self.queues].index(group.name)}.max"

    def standing_by(self, nodes: int, partition: str | None = None) -> int:
        """What always runs and the job does not need. Nodes beyond `min` take minutes to boot."""
        running = [queue.min for queue in self.queues if partition in (None, queue.name)]
        return max(0, sum(running) - nodes)

    @property
    def shared_path(self) -> str:
        return self.shared_storage[0].mount_path

    @property
    def filesystem(self) -> str:
        """The id of one that exists; one that is made anew of an archive has the same files."""
        first = self.shared_storage[0]
        return first.existing or (first.fsx.archive if first.fsx is not None else None) or ""

    @property
    def archive(self) -> str:
        made = (one.fsx.archive for one in self.shared_storage if one.fsx is not None)
        return next(filter(None, made), "")

    @property
    def filesystems(self) -> Collection[str]:
        return {storage.existing for storage in self.shared_storage if storage.existing}

    def reached_filesystems(self) -> Mapping[str, str]:
        return {
            f"sharedStorage.{at}.fsx.fileSystemId": one.fsx.file_system_id
            for at, one in enumerate(self.shared_storage)
            if one.fsx is not None and one.fsx.file_system_id and one.fsx.filesystem is None
        }

    @property
    def filesystems_are_looked_at(self) -> bool:
        """By its API; a cluster that is far from its files works."""
        return True

    @property
    def subnet_fields(self) -> str:
        return "queues, headNode and loginNodes"

    def named_filesystems(self) -> Mapping[str, str]:
        return {
            f"sharedStorage.{at}.fsx.filesystem": one.fsx.filesystem
            for at, one in enumerate(self.shared_storage)
            if one.fsx is not None and one.fsx.filesystem is not None
        }

    def with_filesystems(self, found: Mapping[str, Mountable]) -> Self:
        return self.changed(
            shared_storage=[one.with_filesystems(found) for one in self.shared_storage]
        )

    def as_asked(self) -> Self:
        return self.changed(shared_storage=[one.as_asked() for one in self.shared_storage])

    @property
    def subnets(self) -> Sequence[str]:
        own = [one for queue in self.queues for one in queue.subnet_ids]
        others = [one for entry in self.capacity for one in entry.subnet_ids or []]
        return tuple(dict.fromkeys([*own, *others]))

    @property
    def mounting_subnets(self) -> Sequence[str]:
        """The head node mounts them, too, in whatever way it is made, and so do login nodes."""
        heads = [one.head_node.subnet_id for one in self.capacity if one.head_node]
        logins = [pool.subnet_id for pool in self.login_nodes]
        others = [self.head_node.subnet_id, *heads, *logins]
        return tuple(dict.fromkeys([*self.subnets, *filter(None, others)]))

    @property
    def zonal(self) -> bool:
        """EFS has a mount in every zone; the others lie in one."""
        return any(storage.kind != "efs" for storage in self.shared_storage)

    def cannot(self) -> Sequence[str]:
        return (
            "No training plan: a capacity block or a reservation of EC2 reserves nodes.",
            "No reboot of a node, and no other head node: with it the cluster is lost.",
        )

    @property
    def changeable(self) -> Collection[str]:
        """ParallelCluster judges each; the other ones are ours, or hold what runs left."""
        return CHANGEABLE

    def lost_by(self, wanted: ClusterBase) -> Lacking | None:
        """CloudFormation would make an empty filesystem in another subnet, and delete this one.

        ParallelCluster sees that where a queue gets other subnets, but not where all queues go and
        others come (3.16.1: UpdatePolicy.MANAGED_FSX is of a queue's SubnetIds alone).
        """
        assert isinstance(wanted, ParallelClusterSpec)
        if not self._made_fsx or wanted._queue_subnets == self._queue_subnets:
            return None
        there = ", ".join(sorted(self._queue_subnets))
        return Lacking(
            "queues",
            f"the filesystem '{self._made_fsx[0].name}' was made with the cluster in {there}, and "
            "with queues in another subnet AWS would delete it and make an empty one; give every "
            f"queue the subnet {there}, or make another cluster",
        )

    @property
    def waits_for_users(self) -> bool:
        return self.update_while_used == "wait"

    def mount_paths(self) -> list[str]:
        others = [storage.mount_path for storage in self.shared_storage[1:]]
        return [*others, *super().mount_paths()]

    def read_buckets(self) -> Mapping[str, str]:
        access = {f"s3Access.{at}.bucket": one.bucket for at, one in enumerate(self.s3_access)}
        imported = {
            f"sharedStorage.{at}.{field}": source.removeprefix("s3://").partition("/")[0]
            for at, storage in enumerate(self.shared_storage)
            for field, source in storage.buckets().items()
        }
        return {**super().read_buckets(), **access, **imported}

    @property
    def _made_fsx(self) -> list[SharedStorage]:
        """Filesystems of FSx that are made with the cluster."""
        return [one for one in self.shared_storage if one.kind == "fsx" and one.existing is None]

    @property
    def _queue_subnets(self) -> set[str]:
        return {subnet for queue in self.queues for subnet in queue.subnet_ids}

    def _other_types(self) -> Iterable[tuple[str, str, str]]:
        for queue in self.queues:
            yield from (("queues", queue.name, name) for name in queue.instance_types)
        for pool in self.login_nodes:
            yield "loginNodes", pool.name, pool.instance_type


def _workers(queue: Queue) -> GroupBase:
    return GroupBase(
        name=queue.name,
        role="worker",
        instance_type=queue.instance_types[0],
        count=queue.max,
        partition=queue.name,
    )


def _login(pool: LoginPool) -> GroupBase:
    return GroupBase(
        name=pool.name, role="login", instance_type=pool.instance_type, count=pool.count
    )

"""What the spec of every cluster has, whatever backend it lives in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, StringConstraints, model_validator

from . import spec_rules
from .base import Name, RelativePath, Strict, judged, matching, rule
from .inputs import S3Prefix, S3Source


def _plain_path(value: str) -> str:
    return _refuse(value, spec_rules.climbing(value))


def _mount_path(value: str) -> str:
    return _refuse(value, spec_rules.mounted_over_system(value))


def _refuse(value: str, problem: str | None) -> str:
    if problem is not None:
        raise ValueError(problem)
    return value


#: A package's name with extras and versions (PEP 508, and conda's single '='); never an option of
#: the installer, a path or an address.
Requirement = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?( ?\[[A-Za-z0-9._-]+( ?, ?[A-Za-z0-9._-]+)*\])?"
        r"( ?(===?|~=|!=|<=|>=|<|>|=) ?[A-Za-z0-9.*+!_]+"
        r"( ?, ?(===?|~=|!=|<=|>=|<|>|=) ?[A-Za-z0-9.*+!_]+)*)?$",
        "must be a package with extras and versions at most, such as numpy>=1.26,<3 "
        "(no options, no paths)",
        max_length=200,
    ),
]
AbsolutePath = Annotated[
    str,
    matching(
        r"^(/[A-Za-z0-9_.-]+)+$",
        "must be an absolute path of letters, digits and _ . - such as /fsx",
        max_length=256,
    ),
    judged(_plain_path),
]
MountPath = Annotated[AbsolutePath, judged(_mount_path)]
#: Of the API (botocore: SubnetId and SecurityGroupId), with the kind that EC2 gives them.
SubnetId = Annotated[
    str,
    matching(
        r"^subnet-[0-9a-z]{8,25}$", "must be the id of a subnet such as subnet-0123456789abcdef0"
    ),
]
SecurityGroupId = Annotated[
    str,
    matching(
        r"^sg-[0-9a-z]{8,29}$", "must be the id of a security group such as sg-0123456789abcdef0"
    ),
]


class Network(Strict):
    """The VPC the nodes join; the security group must allow all traffic to itself."""

    subnet_ids: list[SubnetId] = Field(
        min_length=1, max_length=16, description="where the nodes get their addresses"
    )
    security_group_ids: list[SecurityGroupId] = Field(
        min_length=1, max_length=5, description="of every node"
    )


class SharedFilesystem(Strict):
    """FSx for Lustre, mounted on every node; holds runs and checkpoints while the cluster lives."""

    # The API's own patterns (botocore: ClusterDnsName and ClusterMountName).
    dns_name: Annotated[
        str,
        matching(
            r"^(fs|fc)i?-[0-9a-f]{8,}\.[A-Za-z0-9.-]{4,253}$",
            "must be the DNS name of an FSx filesystem such as "
            "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
            max_length=275,
        ),
    ] = Field(description="of the FSx filesystem")
    mount_name: Annotated[
        str,
        matching(
            r"^[A-Za-z0-9_-]{1,8}$",
            "must be the filesystem's mount name: 1 to 8 letters, digits, _ and -",
        ),
    ] = Field(description="that FSx gave the filesystem")
    mount_path: MountPath = Field(default="/fsx", description="where every node has it")


class S3Mount(Strict):
    """A bucket mounted read-only with Mountpoint for Amazon S3."""

    bucket: Annotated[
        str,
        matching(
            r"^[a-z0-9.-]{3,63}$",
            "must be a bucket name: 3 to 63 lower-case letters, digits, dots and hyphens",
        ),
    ] = Field(description="whose objects the nodes read")
    mount_path: MountPath = Field(description="where every node has it")
    prefix: RelativePath | None = Field(
        default=None, description="only objects below it are there; default: all of the bucket"
    )

    @property
    def objects(self) -> S3Prefix:
        return S3Prefix.of(f"{self.bucket}/{self.prefix or ''}")


#: Of Secrets Manager; the characters are those of its API (botocore: NameType).
SecretName = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9/_+=.@-]{1,512}$",
        "must be the name of a secret in Secrets Manager, not its ARN: letters, digits and /_+=.@-",
    ),
]

SshKey = Annotated[
    str,
    matching(
        r"^(ssh-|ecdsa-)[^\x00\r\n]+$",
        "must be one line of a public key, such as 'ssh-ed25519 AAAA... ada'",
        max_length=2048,
    ),
]


class ClusterUser(Strict):
    """A POSIX user made on every node, with the same uid everywhere."""

    name: Annotated[
        str,
        matching(
            r"^[a-z_][a-z0-9_-]{0,31}$",
            "must be a POSIX user name: lower-case letters, digits, _ and -, at most 32",
        ),
    ] = Field(description="of the account")
    uid: int = Field(ge=1000, le=60000, description="of the account; no other user has it")
    ssh_keys: list[SshKey] = Field(
        default_factory=list, max_length=16, description="public keys that may log in"
    )


class PythonEnvironment(Strict):
    """Where the job's Python comes from.

    A venv or conda environment made by the lifecycle scripts, or one that is there.
    """

    kind: Literal["venv", "conda", "existing"] = Field(
        default="venv",
        description="'venv' and 'conda' are made on every worker; 'existing' is there already",
    )
    path: AbsolutePath = Field(
        default="/opt/trainyard/env", description="the environment's directory on the nodes"
    )
    requirements: list[Requirement] = Field(
        default_factory=list,
        max_length=200,
        description="packages to install into it; not for 'existing'",
    )


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


#: Of a spec's list of other capacity.
MOST_ENTRIES = 20


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
    try_for_seconds: int = Field(
        default=600,
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


class ClusterBase(Strict):
    """One controller group, at least one worker group, and what every node needs.

    A backend's spec adds its own fields, and says its name in `backend`.
    """

    name: Name = Field(
        description="of the cluster, at AWS too; made for a run, it gets the end of the run's id"
    )
    backend: str
    instance_groups: Sequence[GroupBase]
    capacity: Sequence[CapacityBase] = ()
    network: Network | None = Field(
        default=None,
        description="which the nodes join; default: the stack's SubnetIds and SecurityGroupIds",
    )
    shared_filesystem: SharedFilesystem = Field(
        description="where runs and checkpoints lie while the cluster lives"
    )
    s3_mounts: list[S3Mount] = Field(
        default_factory=list, max_length=16, description="buckets that every node can read"
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
    users: list[ClusterUser] = Field(
        default_factory=list, max_length=256, description="people's accounts on every node"
    )
    environment: PythonEnvironment = Field(
        default=PythonEnvironment(), description="the Python that jobs run with"
    )
    idle_limit_seconds: int = Field(
        default=1800, ge=60, le=604800, description="deleted when no run used it for this long"
    )
    tags: dict[
        Annotated[str, StringConstraints(min_length=1, max_length=128)],
        Annotated[str, StringConstraints(max_length=256)],
    ] = Field(default_factory=dict, max_length=40, description="of the cluster at AWS, beside ours")

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
                "(network.yaml makes one)"
            )
        return given

    @rule
    def _groups(self) -> ClusterBase:
        names = [group.name for group in self.instance_groups]
        if len(set(names)) != len(names):
            raise ValueError("instanceGroups: every group needs a name of its own")
        controllers = [group for group in self.instance_groups if group.role == "controller"]
        if len(controllers) != 1 or controllers[0].count != 1:
            raise ValueError(
                "instanceGroups: exactly one group with role 'controller' and count 1 is needed"
            )
        if not self.workers():
            raise ValueError("instanceGroups: at least one group with role 'worker' is needed")
        return self

    @rule
    def _meetings(self) -> ClusterBase:
        found = {
            "s3Mounts": spec_rules.mounts_that_meet(
                [self.shared_filesystem.mount_path, *(mount.mount_path for mount in self.s3_mounts)]
            ),
            "users": spec_rules.account_taken([(user.name, user.uid) for user in self.users]),
            "tags": spec_rules.tags_not_ours(self.tags),
        }
        for field, problem in found.items():
            if problem is not None:
                raise ValueError(f"{field}: {problem}")
        return self

    @property
    def ways(self) -> list[Way]:
        """The ways in which the cluster is tried, in order; [] where there is one only."""
        return []

    def may_copy(self, source: S3Prefix) -> bool:
        """Whether the spec lets the nodes read these objects."""
        named = [S3Prefix.of(given) for given in self.job_inputs]
        mounted = [mount.objects for mount in self.s3_mounts]
        return any(held.holds(source) for held in [*named, *mounted])

    def mounted(self, source: S3Prefix) -> str | None:
        """Where every node has these objects mounted."""
        for mount in self.s3_mounts:
            if mount.objects.holds(source):
                below = source.prefix.removeprefix(mount.objects.prefix)
                return f"{mount.mount_path}/{below}".rstrip("/")
        return None

    @property
    def node_repair(self) -> NodeRepair | None:
        """How the backend repairs or replaces broken nodes by itself; None if it does not."""
        return None

    def partition_of(self, group: GroupBase) -> str:
        """The Slurm partition of a worker group."""
        return group.partition or "main"

    def workers(self, partition: str | None = None) -> list[GroupBase]:
        """Groups that a job may use in `partition` (all worker groups if None)."""
        return [
            group
            for group in self.instance_groups
            if group.role == "worker" and partition in (None, self.partition_of(group))
        ]

    @property
    def partitions(self) -> list[str]:
        """Slurm partitions of the worker groups.

        A cluster may have others besides, which hold login nodes, too.
        """
        return sorted({self.partition_of(group) for group in self.workers()})

    def instance_types(self, partition: str | None = None) -> set[str]:
        """Types of the nodes that a job may use in `partition` (all worker groups if None)."""
        return {group.instance_type for group in self.workers(partition)}

    def worker_count(self, partition: str | None = None) -> int:
        """Nodes that a job may use at once in `partition`; spares are not counted."""
        return sum(group.count for group in self.workers(partition))

"""What a user may ask for: the run and the cluster, validated field by field before anything is created."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from . import spec_rules
from .base import RELATIVE_PATH_PATTERN, Name, Strict, matching
from .recipe_names import RecipeName

_RELATIVE = re.compile(RELATIVE_PATH_PATTERN)


def relative_path(value: str) -> str:
    """Return `value` if it is a plain relative path that cannot leave its root; raise ValueError otherwise."""
    if len(value) > 256 or not _RELATIVE.fullmatch(value):
        raise ValueError(
            "must be a relative path of letters, digits and _ . = + @ - that stays inside its root (no '..', no leading '/')"
        )
    return value


def _plain_path(value: str) -> str:
    return _refuse(value, spec_rules.climbing(value))


def _mount_path(value: str) -> str:
    return _refuse(value, spec_rules.mounted_over_system(value))


def _refuse(value: str, problem: str | None) -> str:
    if problem is not None:
        raise ValueError(problem)
    return value


PlainText = Annotated[
    str, matching(r"^[^\x00]*$", "must not contain the NUL character", max_length=4096)
]
EnvironmentName = Annotated[
    str,
    matching(
        r"^[A-Za-z_][A-Za-z0-9_]{0,127}$",
        "must be a variable name: letters, digits and underscores, not starting with a digit",
    ),
]
InstanceType = Annotated[
    str,
    matching(
        r"^ml\.[a-z0-9-]+\.[a-z0-9-]+$",
        "must be an instance type such as ml.c5.xlarge",
        max_length=64,
    ),
]
#: Instance types with Neuron devices begin so.
NEURON_FAMILIES = ("ml.trn", "ml.inf2")
#: A package's name with extras and versions (PEP 508, and conda's single '='); never an option of the installer, a path or an address.
Requirement = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?( ?\[[A-Za-z0-9._-]+( ?, ?[A-Za-z0-9._-]+)*\])?"
        r"( ?(===?|~=|!=|<=|>=|<|>|=) ?[A-Za-z0-9.*+!_]+( ?, ?(===?|~=|!=|<=|>=|<|>|=) ?[A-Za-z0-9.*+!_]+)*)?$",
        "must be a package with extras and versions at most, such as numpy>=1.26,<3 (no options, no paths)",
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
    AfterValidator(_plain_path),
]
MountPath = Annotated[AbsolutePath, AfterValidator(_mount_path)]
#: Of the API (botocore: sagemaker SubnetId and SecurityGroupId), with the kind that EC2 gives them.
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


class EbsVolume(Strict):
    """A secondary EBS volume on every node of the group, mounted at /opt/sagemaker by HyperPod."""

    size_gib: int = Field(ge=1, le=16384, description="size in GiB")
    kms_key_id: str | None = None


class InstanceGroup(Strict):
    """Nodes of one type and role. `count` serve jobs; `spares` stand by idle so that a lost node is replaced in seconds."""

    name: Name
    role: Literal["controller", "worker", "login"]
    instance_type: InstanceType
    count: int = Field(ge=1, le=6758)
    spares: int = Field(default=0, ge=0, le=100)
    partition: Name | None = Field(
        default=None, description="Slurm partition, worker groups only; default 'main'"
    )
    threads_per_core: Literal[1, 2] | None = None
    ebs: EbsVolume | None = None
    training_plan_arn: str | None = None
    deep_health_checks: list[
        Literal["InstanceStress", "InstanceConnectivity", "MultiNodeTrainingValidation"]
    ] = Field(default_factory=list, max_length=3)

    @model_validator(mode="after")
    def _roles(self) -> InstanceGroup:
        if self.role != "worker" and self.spares:
            raise ValueError("spares are for worker groups only; set spares to 0")
        if self.role != "worker" and self.partition is not None:
            raise ValueError("partition is for worker groups only; remove it")
        return self


class Network(Strict):
    """The VPC the nodes join (HyperPod VpcConfig); the security group must allow all traffic to itself."""

    subnet_ids: list[SubnetId] = Field(min_length=1, max_length=16)
    security_group_ids: list[SecurityGroupId] = Field(min_length=1, max_length=5)


class SharedFilesystem(Strict):
    """FSx for Lustre, mounted on every node; holds runs and checkpoints while the cluster lives."""

    # The API's own patterns (botocore: sagemaker ClusterDnsName and ClusterMountName).
    dns_name: Annotated[
        str,
        matching(
            r"^(fs|fc)i?-[0-9a-f]{8,}\.[A-Za-z0-9.-]{4,253}$",
            "must be the DNS name of an FSx filesystem such as fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
            max_length=275,
        ),
    ]
    mount_name: Annotated[
        str,
        matching(
            r"^[A-Za-z0-9_-]{1,8}$",
            "must be the filesystem's mount name: 1 to 8 letters, digits, _ and -",
        ),
    ]
    mount_path: MountPath = "/fsx"


class S3Mount(Strict):
    """A bucket mounted read-only with Mountpoint for Amazon S3."""

    bucket: Annotated[
        str,
        matching(
            r"^[a-z0-9.-]{3,63}$",
            "must be a bucket name: 3 to 63 lower-case letters, digits, dots and hyphens",
        ),
    ]
    mount_path: MountPath
    prefix: str | None = None

    @field_validator("prefix")
    @classmethod
    def _prefix(cls, value: str | None) -> str | None:
        return None if value is None else relative_path(value)


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
    ]
    uid: int = Field(ge=1000, le=60000)
    ssh_keys: list[SshKey] = Field(default_factory=list, max_length=16)


class PythonEnvironment(Strict):
    """Where the job's Python comes from: a venv or conda environment made by the lifecycle scripts, or one that is there."""

    kind: Literal["venv", "conda", "existing"] = "venv"
    path: AbsolutePath = "/opt/trainyard/env"
    requirements: list[Requirement] = Field(default_factory=list, max_length=200)


class JobPythonEnvironment(Strict):
    """Packages of one job's own: built once on the shared filesystem, on top of the cluster's environment, before the job's first attempt."""

    kind: Literal["venv", "uv", "conda"] = Field(
        default="venv", description="'uv' and 'conda' need that program on the nodes"
    )
    python: (
        Annotated[str, matching(r"^3\.[0-9]{1,2}$", "must be a version of Python such as 3.11")]
        | None
    ) = Field(
        default=None,
        description="version such as '3.11', for uv and conda; default: that of the cluster's environment",
    )
    requirements: list[Requirement] = Field(min_length=1, max_length=200)

    @model_validator(mode="after")
    def _version(self) -> JobPythonEnvironment:
        if self.kind == "venv" and self.python is not None:
            raise ValueError(
                "python: a venv has the Python of the cluster's environment; use kind 'uv' or 'conda' for another version"
            )
        return self


class ClusterSpec(Strict):
    """A cluster: one controller group, at least one worker group, and what every node needs."""

    name: Name
    backend: Literal["hyperpod"] = "hyperpod"
    # Two at least, said by `_groups`, which knows what kind of group is missing.
    instance_groups: list[InstanceGroup] = Field(max_length=100, json_schema_extra={"minItems": 2})
    network: Network | None = Field(
        default=None, description="default: the stack's SubnetIds and SecurityGroupIds"
    )
    shared_filesystem: SharedFilesystem
    s3_mounts: list[S3Mount] = Field(default_factory=list, max_length=16)
    users: list[ClusterUser] = Field(default_factory=list, max_length=256)
    environment: PythonEnvironment = PythonEnvironment()
    node_recovery: Literal["Automatic", "None"] = "Automatic"
    provisioning: Literal["Continuous", "AllAtOnce"] = "Continuous"
    slurm_setup: Literal["SlurmConfig", "ProvisioningParameters"] = "SlurmConfig"
    idle_limit_seconds: int = Field(
        default=1800, ge=60, le=604800, description="deleted when no run used it for this long"
    )
    tags: dict[
        Annotated[str, StringConstraints(min_length=1, max_length=128)],
        Annotated[str, StringConstraints(max_length=256)],
    ] = Field(default_factory=dict, max_length=40)

    @model_validator(mode="before")
    @classmethod
    def _filesystem(cls, given: Any) -> Any:
        if (
            isinstance(given, dict)
            and given.get("sharedFilesystem", given.get("shared_filesystem")) is None
        ):
            raise ValueError(
                "sharedFilesystem: is needed, for without it jobs on different nodes see none of each other's files; "
                "give dnsName and mountName of an FSx for Lustre filesystem (network.yaml makes one)"
            )
        return given

    @model_validator(mode="after")
    def _groups(self) -> ClusterSpec:
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
        if self.provisioning == "Continuous" and self.slurm_setup != "SlurmConfig":
            raise ValueError("slurmSetup: provisioning 'Continuous' needs slurmSetup 'SlurmConfig'")
        return self

    @model_validator(mode="after")
    def _meetings(self) -> ClusterSpec:
        found = {
            "s3Mounts": spec_rules.mounts_that_meet(
                [self.shared_filesystem.mount_path, *(mount.mount_path for mount in self.s3_mounts)]
            ),
            "users": spec_rules.account_taken((user.name, user.uid) for user in self.users),
            "tags": spec_rules.tags_not_ours(self.tags),
        }
        for field, problem in found.items():
            if problem is not None:
                raise ValueError(f"{field}: {problem}")
        return self

    def partition_of(self, group: InstanceGroup) -> str:
        """The Slurm partition of a worker group."""
        return group.partition or "main"

    @property
    def partitions(self) -> list[str]:
        """Slurm partitions of the worker groups. A cluster has others besides, such as HyperPod's `dev`, which holds login nodes, too."""
        return sorted(
            {self.partition_of(group) for group in self.instance_groups if group.role == "worker"}
        )

    def instance_types(self, partition: str | None = None) -> set[str]:
        """Types of the nodes that a job may use in `partition` (all worker groups if None)."""
        groups = [group for group in self.instance_groups if group.role == "worker"]
        return {
            group.instance_type for group in groups if partition in (None, self.partition_of(group))
        }

    def worker_count(self, partition: str | None = None) -> int:
        """Nodes that a job may use at once in `partition` (all worker groups if None); spares not counted."""
        return sum(
            group.count
            for group in self.instance_groups
            if group.role == "worker" and partition in (None, self.partition_of(group))
        )


class ClusterRef(Strict):
    """The cluster a run uses: an existing one by `name`, or one made for it from `spec`."""

    name: Name | None = None
    spec: ClusterSpec | None = None

    @model_validator(mode="after")
    def _one(self) -> ClusterRef:
        if (self.name is None) == (self.spec is None):
            raise ValueError(
                "give one of 'name' (an existing cluster) and 'spec' (a cluster made for this run)"
            )
        return self


ModuleName = Annotated[
    str,
    matching(
        r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$",
        "must be the name of a Python module such as package.train",
        max_length=256,
    ),
]


class JobSpec(Strict):
    """What runs on the nodes. Every string reaches the process as data: no shell ever reads it."""

    recipe: RecipeName = Field(
        default="torchrun", description="the launcher of the job's processes"
    )
    nodes: int = Field(ge=1, le=6758)
    processes_per_node: int = Field(default=1, ge=1, le=128)
    module: ModuleName | None = None
    script: str | None = Field(default=None, description="path of a file in 'files'")
    arguments: list[PlainText] = Field(default_factory=list, max_length=256)
    environment: dict[EnvironmentName, PlainText] = Field(default_factory=dict, max_length=128)
    files: dict[str, Annotated[str, StringConstraints(max_length=131072)]] = Field(
        default_factory=dict, max_length=64
    )
    partition: Name | None = None
    python_environment: JobPythonEnvironment | None = None
    precompile: bool = Field(
        default=False,
        description="recipe 'neuron': compile the program's graphs first; training waits for it",
    )

    @field_validator("script")
    @classmethod
    def _script(cls, value: str | None) -> str | None:
        return None if value is None else relative_path(value)

    @field_validator("files")
    @classmethod
    def _files(cls, value: dict[str, str]) -> dict[str, str]:
        for path in value:
            relative_path(path)
        if problem := spec_rules.file_and_directory(value.keys()):
            raise ValueError(problem)
        return value

    @field_validator("environment")
    @classmethod
    def _environment(cls, value: dict[str, str]) -> dict[str, str]:
        # LD_LIBRARY_PATH is allowed: where NCCL's EFA plugin lies is the image's business and the user's.
        ours = ("TRAINYARD_", "SLURM_", "LD_")
        reserved = [
            name
            for name in value
            if name != "LD_LIBRARY_PATH"
            and (name.startswith(ours) or name in ("PATH", "PYTHONPATH"))
        ]
        if reserved:
            raise ValueError(f"{reserved[0]} is set by Trainyard or the node; choose another name")
        return value

    @model_validator(mode="after")
    def _program(self) -> JobSpec:
        if (self.module is None) == (self.script is None):
            raise ValueError(
                "give one of 'module' (an importable module) and 'script' (a path in 'files')"
            )
        if self.script is not None and self.script not in self.files:
            raise ValueError(f"script: '{self.script}' is not in 'files'; add it there")
        if self.precompile and self.recipe != "neuron":
            raise ValueError(
                f"precompile: recipe '{self.recipe}' compiles nothing ahead; remove it or use recipe 'neuron'"
            )
        return self

    def unfit(self, cluster: ClusterSpec) -> tuple[str, str] | None:
        """Why the cluster can never run this job: the field that is wrong, and a sentence; None if it can."""
        partitions = ", ".join(cluster.partitions)
        if self.partition is None and len(cluster.partitions) > 1:
            return (
                "partition",
                f"cluster '{cluster.name}' has several partitions; name one of {partitions}",
            )
        if self.partition is not None and self.partition not in cluster.partitions:
            return (
                "partition",
                f"cluster '{cluster.name}' has no partition '{self.partition}'; it has {partitions}",
            )
        have = cluster.worker_count(self.partition)
        where = (
            f"partition '{self.partition}' of cluster '{cluster.name}'"
            if self.partition
            else f"cluster '{cluster.name}'"
        )
        if self.nodes > have:
            return (
                "nodes",
                f"{self.nodes} nodes asked, but {where} has {have} worker nodes; ask for at most {have}",
            )
        types = cluster.instance_types(self.partition)
        if self.recipe == "neuron" and not all(name.startswith(NEURON_FAMILIES) for name in types):
            return (
                "recipe",
                f"recipe 'neuron' needs Trainium or Inferentia2 nodes, but {where} has {', '.join(sorted(types))}; use 'torchrun'",
            )
        return None


class CheckpointSpec(Strict):
    """When the trainer commits checkpoints and how many are kept on the cluster."""

    directory: str = Field(
        default="checkpoints",
        description="relative to the run's directory on the shared filesystem",
    )
    every_seconds: Annotated[float, Field(gt=0, le=86400)] | Literal["auto"] | None = Field(
        default=None,
        description="'auto': the interval that loses least, from what a save costs and secondsBetweenFailures",
    )
    seconds_between_failures: float = Field(
        default=86400,
        ge=60,
        le=366 * 86400,
        description="expected between two failures of the whole job; used by everySeconds 'auto'",
    )
    every_steps: int | None = Field(default=None, ge=1)
    keep: int = Field(
        default=3, ge=2, le=1000, description="newest whole checkpoints kept on the cluster"
    )

    @field_validator("every_seconds", mode="before")
    @classmethod
    def _every_seconds(cls, value: object) -> object:
        # A union's own errors would name its members, which nobody wrote.
        number = (
            isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 86400
        )
        if value is None or value == "auto" or number:
            return value
        raise ValueError("must be a number of seconds greater than 0 and at most 86400, or 'auto'")

    @field_validator("directory")
    @classmethod
    def _directory(cls, value: str) -> str:
        return relative_path(value)


class ExportSpec(Strict):
    """What is copied to S3 at the end (always verified object by object)."""

    enabled: bool = True
    checkpoints: Literal["all", "last", "none"] = "all"


class RecoverySpec(Strict):
    """The budgets of the recovery policy."""

    max_attempts: int = Field(default=10, ge=1, le=1000)
    same_error_limit: int = Field(
        default=2,
        ge=1,
        le=100,
        description="stop when the same error came this often at the same step",
    )
    in_place_restarts_per_node: int = Field(
        default=2, ge=0, le=100, description="then the node is excluded"
    )
    wait_for_node_seconds: int = Field(
        default=3600,
        ge=0,
        le=86400,
        description="how long to wait for a node when no spare is left",
    )


class LimitSpec(Strict):
    """Hard bounds of the run's life."""

    max_duration_seconds: int = Field(default=7 * 86400, ge=60, le=60 * 86400)
    cluster_deadline_seconds: int = Field(
        default=3600, ge=30, le=86400, description="time for the cluster to be ready"
    )


class RunSpec(Strict):
    """One training job's whole life: cluster, job, checkpoints, export, teardown."""

    name: Name
    cluster: ClusterRef
    job: JobSpec
    checkpoint: CheckpointSpec = CheckpointSpec()
    export: ExportSpec = ExportSpec()
    recovery: RecoverySpec = RecoverySpec()
    limits: LimitSpec = LimitSpec()
    teardown: Literal["always", "on-success", "never"] | None = Field(
        default=None,
        description="default: 'always' for a cluster made for this run, 'never' for an existing one",
    )

    @model_validator(mode="after")
    def _fits(self) -> RunSpec:
        spec = self.cluster.spec
        if spec is None:
            if self.teardown not in (None, "never"):
                raise ValueError(
                    "teardown: a run never deletes a cluster that it did not create; use 'never'"
                )
            return self
        if unfit := self.job.unfit(spec):
            raise ValueError(f"job.{unfit[0]}: {unfit[1]}")
        return self

    @property
    def teardown_policy(self) -> Literal["always", "on-success", "never"]:
        """The teardown in force, defaults applied."""
        return self.teardown or ("always" if self.cluster.spec is not None else "never")

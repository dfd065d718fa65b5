"""The parts of which specs of clusters are made: paths, networks, mounts, users, environments."""

from typing import Annotated, Literal, NamedTuple

from pydantic import Field
from typing_extensions import Self

from . import spec_rules
from .base import Name, RelativePath, Strict, judged, matching, rule
from .inputs import S3Prefix


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


class Mountable(NamedTuple):
    """What nodes need of a filesystem that is there."""

    file_system_id: str
    dns_name: str
    mount_name: str


class SharedFilesystem(Strict):
    """FSx for Lustre, mounted on every node; holds runs and checkpoints while the cluster lives."""

    filesystem: Name | None = Field(
        default=None,
        description="name of a filesystem of /v1/filesystems, in place of dnsName and mountName",
    )
    # The API's own patterns (botocore: ClusterDnsName and ClusterMountName).
    dns_name: (
        Annotated[
            str,
            matching(
                r"^(fs|fc)i?-[0-9a-f]{8,}\.[A-Za-z0-9.-]{4,253}$",
                "must be the DNS name of an FSx filesystem such as "
                "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
                max_length=275,
            ),
        ]
        | None
    ) = Field(default=None, description="of the FSx filesystem")
    mount_name: (
        Annotated[
            str,
            matching(
                r"^[A-Za-z0-9_-]{1,8}$",
                "must be the filesystem's mount name: 1 to 8 letters, digits, _ and -",
            ),
        ]
        | None
    ) = Field(default=None, description="that FSx gave the filesystem")
    mount_path: MountPath = Field(default="/fsx", description="where every node has it")

    @rule
    def _one(self) -> Self:
        if self.filesystem is not None and (self.dns_name or self.mount_name):
            raise ValueError(
                "filesystem: says which filesystem it is; remove dnsName and mountName, or it"
            )
        missing = "dnsName" if not self.dns_name else "mountName"
        if self.filesystem is None and not (self.dns_name and self.mount_name):
            raise ValueError(
                f"{missing}: is needed; give dnsName and mountName of an FSx for Lustre "
                "filesystem, or filesystem with the name of one of /v1/filesystems"
            )
        return self

    @property
    def place(self) -> str:
        """Its DNS name and mount name; '' while only its name is known."""
        return f"{self.dns_name}/{self.mount_name}" if self.dns_name else ""

    def found_as(self, found: Mountable) -> Self:
        return self.changed(dns_name=found.dns_name, mount_name=found.mount_name)

    def as_asked(self) -> Self:
        """Without what was looked up."""
        if self.filesystem is None:
            return self
        return type(self)(filesystem=self.filesystem, mount_path=self.mount_path)


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

"""Parts of a cluster of ParallelCluster's: image, head node, login nodes, scripts, permissions."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import Self

from .base import RelativePath, Strict, judged, matching, rule
from .cluster_parts import SubnetId

#: SUPPORTED_OSES of ParallelCluster 3.16.1. There is no public image of the rocky ones.
Os = Literal["alinux2023", "ubuntu2204", "ubuntu2404", "rhel8", "rhel9", "rocky8", "rocky9"]
WITHOUT_IMAGE = ("rocky8", "rocky9")


def _not_default(value: str) -> str:
    if value == "default":
        raise ValueError("'default' is ParallelCluster's own word; choose another name")
    return value


#: NameValidator of ParallelCluster 3.16.1.
PartName = Annotated[
    str,
    matching(
        r"^[a-z][a-z0-9-]{0,24}$",
        "must be 1 to 25 lower-case letters, digits and hyphens, the first one a letter",
    ),
    judged(_not_default),
]
InstanceType = Annotated[
    str,
    matching(
        r"^[a-z][a-z0-9-]*\.[a-z0-9-]+$",
        "must be an instance type of EC2 such as p5.48xlarge (no 'ml.' before it)",
        max_length=64,
    ),
]
AmiId = Annotated[
    str,
    matching(
        r"^ami-[0-9a-f]{8}([0-9a-f]{9})?$",
        "must be the id of an image such as ami-0123456789abcdef0",
    ),
]
#: The API stack's own role may attach no other of the account's (parallelcluster-policies.yaml).
PolicyArn = Annotated[
    str,
    matching(
        r"^arn:[a-z-]+:iam::(aws:policy/|[0-9]{12}:policy/parallelcluster)[A-Za-z0-9+=,.@_/-]+$",
        "must be the ARN of a policy: AWS's own, such as arn:aws:iam::aws:policy/NAME, or one of "
        "the account whose name begins with 'parallelcluster'",
    ),
]
Cidr = Annotated[
    str,
    matching(r"^([0-9]{1,3}\.){3}[0-9]{1,3}/[0-9]{1,2}$", "must be addresses such as 10.0.0.0/8"),
]


class Image(Strict):
    """What the nodes boot: ParallelCluster's own image of an operating system, or one of yours."""

    os: Os = Field(default="ubuntu2204", description="the operating system, also of customAmi")
    custom_ami: AmiId | None = Field(
        default=None, description="an image that was made for this version of ParallelCluster"
    )

    @rule
    def _there_is_one(self) -> Self:
        if self.os in WITHOUT_IMAGE and self.custom_ami is None:
            raise ValueError(
                f"customAmi: is needed, for ParallelCluster publishes no image of {self.os}; "
                "build one, or use another os"
            )
        return self


class NodeScript(Strict):
    """A script that ParallelCluster fetches and runs as root when a node is configured."""

    source: Annotated[
        str,
        matching(
            r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/|https://[A-Za-z0-9.-]+/)"
            r"[A-Za-z0-9_.=+@/-]+$",
            "must be s3://BUCKET/KEY or an https address of a script",
            max_length=512,
        ),
    ] = Field(description="s3://BUCKET/KEY or an https address")
    arguments: list[Annotated[str, matching(r"^[^\x00\r\n]*$", "must be one line")]] = Field(
        default_factory=list, max_length=32, description="given to the script"
    )


class HeadNode(Strict):
    """The node that runs Slurm's controller and the agent that speaks for the cluster."""

    instance_type: InstanceType = Field(description="of the head node")
    subnet_id: SubnetId = Field(description="where it gets its address")
    root_volume_gib: int = Field(default=100, ge=35, le=16384, description="of its root volume")
    key_name: (
        Annotated[
            str,
            matching(r"^[ -~]{1,255}$", "must be the name of a key pair of EC2"),
        ]
        | None
    ) = Field(default=None, description="key pair for ssh; default: Session Manager only")
    ssh_from: Cidr | None = Field(
        default=None, description="addresses that may log in by ssh; default: everywhere"
    )
    dcv: bool = Field(default=False, description="a remote desktop (Amazon DCV)")
    dcv_from: Cidr | None = Field(
        default=None, description="addresses that may open the desktop; needed with dcv"
    )
    scripts: list[NodeScript] = Field(
        default_factory=list, max_length=8, description="run on it once it is configured"
    )

    @rule
    def _desktop(self) -> Self:
        if self.dcv and self.dcv_from is None:
            raise ValueError(
                "dcvFrom: is needed with dcv, which would be open to everybody; give addresses "
                "such as 10.0.0.0/8"
            )
        if self.dcv_from is not None and not self.dcv:
            raise ValueError("dcvFrom: is for dcv only; remove it, or set dcv to true")
        return self


class LoginPool(Strict):
    """Nodes for people; they run no jobs."""

    name: PartName = Field(description="of the pool; no other pool has it")
    instance_type: InstanceType = Field(description="of each of its nodes")
    count: int = Field(default=1, ge=1, le=20, description="nodes")
    subnet_id: SubnetId = Field(description="where they get their addresses")
    scripts: list[NodeScript] = Field(
        default_factory=list, max_length=8, description="run on each once it is configured"
    )


class S3Access(Strict):
    """Objects that head node and workers may reach beside their own runs."""

    bucket: Annotated[
        str,
        matching(
            r"^[a-z0-9.-]{3,63}$",
            "must be a bucket name: 3 to 63 lower-case letters, digits, dots and hyphens",
        ),
    ] = Field(description="of the objects")
    prefix: RelativePath | None = Field(
        default=None, description="only objects below it; default: all of the bucket"
    )
    write: bool = Field(default=False, description="they may be written, too")

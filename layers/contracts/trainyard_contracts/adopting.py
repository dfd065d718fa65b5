"""What a person asks for who lets Trainyard run jobs on a cluster that others made."""

from typing import Annotated

from pydantic import Field
from typing_extensions import Self

from .base import Name, Strict, matching, rule
from .cluster_parts import MountPath, PythonEnvironment, SecretName
from .inputs import S3Source

#: All that adoption leaves on a node's own disk; an environment that it makes lies below it, too.
HOME = "/opt/trainyard"
ClusterArn = Annotated[
    str,
    matching(
        r"^arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9-]+:[0-9]{12}:cluster/[A-Za-z0-9]+$",
        "must be the ARN of a cluster: arn:aws:SERVICE:REGION:ACCOUNT:cluster/ID, as AWS shows it",
        max_length=256,
    ),
]


class Allowed(Strict):
    """What Trainyard may do to nodes that are not its own."""

    replace_nodes: bool = Field(
        default=False,
        description="replace a lost node, and replace or reboot one when a person asks for it; the "
        "cluster then needs the tag trainyard:replace-nodes with the stack's name",
    )


class AdoptSpec(Strict):
    """A cluster with Slurm that others made.

    What AWS does not say of it, its adopter says.
    """

    name: Name | None = Field(default=None, description="of the cluster at AWS, and here")
    arn: ClusterArn | None = Field(default=None, description="of the cluster, in place of its name")
    shared_dir: MountPath | None = Field(
        default=None,
        description="a directory that every node has mounted, for runs and checkpoints; default: "
        "where AWS mounts the FSx for Lustre filesystem of the cluster",
    )
    controller_group: Name | None = Field(
        default=None,
        description="the group of Slurm's controller; default: the one that AWS calls Controller",
    )
    login_groups: list[Name] = Field(
        default_factory=list,
        max_length=100,
        description="groups that run no jobs, besides those that AWS calls Login",
    )
    partitions: dict[Name, Name] = Field(
        default_factory=dict,
        max_length=100,
        description="the Slurm partition of each worker group for which AWS knows none",
    )
    environment: PythonEnvironment = Field(
        default=PythonEnvironment(),
        description="the Python that jobs run with; one that is made lies below /opt/trainyard",
    )
    job_secrets: list[SecretName] = Field(
        default_factory=list,
        max_length=32,
        description="secrets of Secrets Manager that jobs on it may ask for (job.secrets)",
    )
    job_inputs: list[S3Source] = Field(
        default_factory=list,
        max_length=16,
        description="prefixes of buckets that its runs may copy from (inputs)",
    )
    allow: Allowed = Field(
        default=Allowed(), description="what Trainyard may do to the nodes; nothing unless it says"
    )

    @rule
    def _one_name(self) -> Self:
        if (self.name is None) == (self.arn is None):
            raise ValueError("name: give one of 'name' and 'arn' of the cluster")
        return self

    @rule
    def _own_place(self) -> Self:
        made = self.environment.kind != "existing"
        if made and not self.environment.path.startswith(f"{HOME}/"):
            raise ValueError(
                f"environment.path: an environment that is made must lie below {HOME}, so that it "
                "goes with the rest; use such a path, or kind 'existing'"
            )
        return self

    @property
    def named(self) -> str:
        """As AWS takes it."""
        return self.name or self.arn or ""

"""What the scripts of a new cluster's nodes read of it."""

from typing import Literal

from pydantic import Field

from .base import Lenient
from .cluster_parts import ClusterUser, PythonEnvironment, S3Mount, SharedFilesystem


class WorkerGroup(Lenient):
    """A group of workers, and the Slurm partition of its nodes."""

    name: str
    partition: str


class ClusterFile(Lenient):
    """cluster.json of the lifecycle bundle: what a node that boots must know of its cluster.

    The lifecycle scripts read it before anything of ours is installed.
    """

    cluster_name: str
    region: str
    event_bus: str
    data_bucket: str
    runs_prefix: str
    secret_name: str = Field(description="holds the key of the cluster's agents")
    heartbeat_seconds: float = Field(gt=0)
    environment: PythonEnvironment
    users: list[ClusterUser]
    s3_mounts: list[S3Mount]
    shared_filesystem: SharedFilesystem | None = Field(
        default=None, description="that the scripts mount; null: the backend mounts it"
    )
    shared_path: str = Field(
        default="", description="where every node has it, where shared_filesystem does not say so"
    )
    slurm_setup: Literal["SlurmConfig", "ProvisioningParameters", "BackendsOwn", "Adopted"] = Field(
        description="BackendsOwn: all of Slurm is the backend's, and the scripts leave it alone; "
        "Adopted: it is of others, and so is all else on the nodes"
    )
    controller_group: str
    worker_groups: list[WorkerGroup]
    expected_workers: int = Field(ge=0, description="spares may join later: a run does not wait")
    link_port: int = Field(ge=1, le=65535, description="of the controller's agent")

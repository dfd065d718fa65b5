"""What the agent of a node knows of its cluster."""

from typing import Literal

from pydantic import Field

from .base import Lenient


class AgentConfig(Lenient):
    """`<root>/etc/trainyard/agent.json`, by the lifecycle scripts: what an agent must know."""

    cluster_name: str
    cluster_arn: str
    node_name: str = Field(description="Slurm node name, ip-a-b-c-d")
    instance_id: str
    role: Literal["controller", "worker", "login"]
    address: str = Field(description="this node's IP address")
    controller_address: str
    link_port: int = Field(ge=1, le=65535, description="TCP port of the controller agent's link")
    key_file: str = Field(description="file with the cluster's own key, mode 0600")
    shared_root: str = Field(description="the shared filesystem, /fsx on AWS")
    shared_path: str = Field(
        default="",
        description="the mount path of the cluster's spec, which may lead nowhere on a node of the "
        "local cloud; '' = not known",
    )
    state_dir: str = Field(description="/var/lib/trainyard on AWS: outbox, socket")
    python: str = Field(description="interpreter of the jobs' environment")
    library_dir: str = Field(
        description="directory with the agent, the contracts, the trainers and trainyard_job"
    )
    event_bus: str
    region: str
    data_bucket: str
    runs_prefix: str = Field(
        default="runs",
        description=(
            "below it lie this cluster's runs in the data bucket; its nodes reach no others"
        ),
    )
    slurm_bin: str = Field(
        default="", description="directory of sbatch, scontrol, ...; empty = PATH"
    )
    slurm_conf: str | None = None
    partitions: list[str] = Field(
        default_factory=list,
        description="those of worker groups: a node in none of them is no worker; [] = all are",
    )
    job_end_hook: str | None = Field(
        default=None,
        description="controller: our EpilogSlurmctld, kept in force while the cluster lives",
    )
    nodes_come_and_go: bool = Field(
        default=False,
        description="nodes are powered up for jobs and down when they are idle, and their names in "
        "Slurm do not follow from their addresses",
    )
    spot: bool = Field(default=False, description="EC2 may take this node's instance back")
    metadata_endpoint: str = Field(
        default="http://169.254.169.254", description="of the instance's metadata (version 2)"
    )
    heartbeat_seconds: float = Field(default=60, gt=0)
    beat_seconds: float = Field(default=1, gt=0)
    silent_after_seconds: float = Field(
        default=3.5, gt=0, description="no beat for this long = the agent is silent"
    )
    expected_workers: int = Field(
        default=0, ge=0, description="controller: nodes that must join before ClusterReady"
    )
    mounts: list[str] = Field(
        default_factory=list, description="paths that must be mounted; checked"
    )

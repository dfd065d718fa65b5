"""What a local HyperPod cluster is: its state, and what everything about it asks of it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from trainyard_local.local_cloud import LocalCloud
from trainyard_local.nodes.cluster import ClusterOfNodes, new_id
from trainyard_local.nodes.node import Node
from trainyard_local.sagemaker.capacity import Capacity
from trainyard_local.slurm.cluster import Ports


def now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(frozen=True)
class Settings:
    """What tests and demos may want otherwise; each from an environment variable of the server."""

    lifecycle_timeout_seconds: float = 600.0
    retry_seconds: float = 5.0
    notice_seconds: float = 15.0
    slurm_port: int = 21000
    duplicate_events: bool = False
    #: What asks for a type of which there is none is tried again for ever.
    capacity: Capacity = field(default_factory=Capacity)

    @classmethod
    def from_env(cls, cloud: LocalCloud) -> Settings:
        """Clouds on different ports get different Slurm ports: 4780 -> 28000 and the next 999."""
        return cls(
            lifecycle_timeout_seconds=float(
                os.environ.get("TRAINYARD_LOCAL_LIFECYCLE_TIMEOUT", "600")
            ),
            retry_seconds=float(os.environ.get("TRAINYARD_LOCAL_RETRY_SECONDS", "5")),
            notice_seconds=float(os.environ.get("TRAINYARD_LOCAL_NOTICE_SECONDS", "15")),
            slurm_port=int(
                os.environ.get("TRAINYARD_LOCAL_SLURM_PORT", str(20000 + cloud.port % 100 * 100))
            ),
            capacity=Capacity(
                filter(None, os.environ.get("TRAINYARD_LOCAL_WITHOUT_CAPACITY", "").split(","))
            ),
            duplicate_events=os.environ.get("TRAINYARD_LOCAL_DUPLICATE_EVENTS") == "1",
        )


class NodeKind(Protocol):
    """What differs between clusters of processes and clusters of machines."""

    def slurm(self, cluster: Cluster) -> Any:
        """The cluster's Slurm: SlurmCluster, or what offers the same of it to a cluster."""

    def address(self, cluster: Cluster) -> str:
        """A free address."""

    def successor_address(self, cluster: Cluster, node: Node) -> str:
        """The address of the instance that takes the node's place."""

    def node(
        self,
        cluster: Cluster,
        instance_id: str,
        group: str,
        instance_type: str,
        label: str,
        address: str,
        home: Path,
    ) -> Node:
        """An instance that is not started yet."""

    def begin(self, cluster: Cluster) -> subprocess.Popen[bytes] | None:
        """Before the first node: what the cluster's Slurm needs.

        Raises RuntimeError or OSError. Returns its munge daemon, if it is one.
        """

    def set_up(self, cluster: Cluster, node: Node, entry: str) -> None:
        """What HyperPod does for a prepared node before a script runs.

        `entry` names the script: OnCreate or OnInitComplete.
        """

    def restart_controller(self, cluster: Cluster, controller: Node) -> None:
        """Let Slurm learn of nodes that were added or taken away."""

    def closed(self, cluster: Cluster, nodes: list[Node]) -> None:
        """The cluster's processes are dead."""


@dataclass
class Cluster(ClusterOfNodes):
    """What is known of a HyperPod cluster, and what everything about it asks."""

    cloud: LocalCloud
    settings: Settings
    ports: Ports
    request: dict[str, Any]
    kind: NodeKind
    id: str = field(default_factory=new_id)
    status: str = "Creating"
    failure_message: str = ""
    created_at: datetime = field(default_factory=now)
    nodes: dict[str, Node] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    #: Failure messages by event id; the bus never carries them.
    event_reasons: dict[str, str] = field(default_factory=dict)
    #: Faults of its next sessions: (moment, way).
    session_cuts: deque[tuple[str, str]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.come_to_life()
        self.groups: dict[str, dict[str, Any]] = {
            group["InstanceGroupName"]: dict(group) for group in self.request["InstanceGroups"]
        }
        self.tags.update({tag["Key"]: tag["Value"] for tag in self.request.get("Tags") or []})
        self.shared.mkdir(parents=True, exist_ok=True)
        self.slurm = self.kind.slurm(self)
        self._files: dict[str, bytes] = {}

    # -- what it is -------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return str(self.request["ClusterName"])

    @property
    def arn(self) -> str:
        return f"arn:aws:sagemaker:{self.cloud.region}:{self.cloud.account_id}:cluster/{self.id}"

    @property
    def continuous(self) -> bool:
        return self.request.get("NodeProvisioningMode") == "Continuous"

    @property
    def shared(self) -> Path:
        """The directory in the place of the shared filesystem.

        FSx outlives its clusters, and is the same for all that name it.
        """
        lustre = self._lustre()
        if lustre is None:
            return self.directory / "shared"
        name = f"{lustre['DnsName']}/{lustre['MountName']}"
        found = self.cloud.state_dir / "fsx" / hashlib.sha256(name.encode()).hexdigest()[:16]
        # One that FSx made has a directory by its id, and this name leads there.
        return found.parent / found.readlink() if found.is_symlink() else found

    @property
    def shared_path(self) -> str:
        """Where HyperPod mounts it; '' where the lifecycle scripts are to do that."""
        lustre = self._lustre()
        return str(lustre.get("MountPath") or "/fsx") if lustre is not None else ""

    def _lustre(self) -> dict[str, Any] | None:
        for group in self.request["InstanceGroups"]:
            for storage in group.get("InstanceStorageConfigs") or []:
                if lustre := storage.get("FsxLustreConfig"):
                    return dict(lustre)
        return None

    @property
    def log_group(self) -> str:
        return f"/aws/sagemaker/Clusters/{self.name}/{self.id}"

    @property
    def controller(self) -> Node | None:
        return next(
            (node for node in self.members() if self.role(node.group) == "Controller"), None
        )

    def role(self, group: str) -> str:
        """Controller, Login or Compute: SlurmConfig says it, else provisioning_parameters.json."""
        node_type = (self.groups[group].get("SlurmConfig") or {}).get("NodeType")
        if node_type:
            return str(node_type)
        parameters = self._provisioning_parameters()
        if group == parameters.get("controller_group", next(iter(self.groups))):
            return "Controller"
        return "Login" if group == parameters.get("login_group") else "Compute"

    def partition(self, group: str) -> str:
        names = (self.groups[group].get("SlurmConfig") or {}).get("PartitionNames")
        if names:
            return str(names[0])
        workers = self._provisioning_parameters().get("worker_groups", [])
        return next(
            (
                str(entry["partition_name"])
                for entry in workers
                if entry.get("instance_group_name") == group
            ),
            "dev",
        )

    def _provisioning_parameters(self) -> dict[str, Any]:
        try:
            value = json.loads(self._files.get("provisioning_parameters.json", b"{}"))
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

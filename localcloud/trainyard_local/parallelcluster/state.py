"""What a local cluster of ParallelCluster's is: its state, and what everything about it asks."""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from trainyard_local.fsx.state import Filesystem
from trainyard_local.local_cloud import LocalCloud
from trainyard_local.nodes.cluster import ClusterOfNodes, free_address, new_id, new_instance_id
from trainyard_local.nodes.node import Node
from trainyard_local.parallelcluster.configuration import HEAD_NODE, Configuration, Permissions
from trainyard_local.parallelcluster.node import QueueNode
from trainyard_local.parallelcluster.settings import Settings
from trainyard_local.parallelcluster.slurm import PowerSavingSlurm
from trainyard_local.slurm.cluster import Ports

#: Of the API stack and of every cluster that it makes.
VERSION = "3.16.1"


def now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(frozen=True)
class Failure:
    """Why a cluster could not be made."""

    code: str
    reason: str


@dataclass
class Cluster(ClusterOfNodes):
    """`status` is the API's word, `stack` CloudFormation's, `fleet` that of the compute fleet."""

    cloud: LocalCloud
    settings: Settings
    ports: Ports
    given_name: str
    configuration: Configuration
    rollback: bool = True
    id: str = field(default_factory=new_id)
    status: str = "CREATE_IN_PROGRESS"
    stack: str = "CREATE_IN_PROGRESS"
    fleet: str = "UNKNOWN"
    failure: Failure | None = None
    created_at: datetime = field(default_factory=now)
    updated_at: datetime = field(default_factory=now)
    #: When its stack was made, or its newest update began.
    changed_at: datetime = field(default_factory=now)
    nodes: dict[str, Node] = field(default_factory=dict)
    #: The one that was made with it.
    filesystem: Filesystem | None = None
    #: Of the stack, the oldest first.
    stack_events: list[dict[str, Any]] = field(default_factory=list)
    session_cuts: deque[tuple[str, str]] = field(default_factory=deque)
    #: When EC2's capacity for a queue's type is asked for again, by the queue's name (monotonic).
    without_capacity: dict[str, float] = field(default_factory=dict)
    #: Nodes of a queue that did not boot, one after the other.
    boot_failures: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.come_to_life()
        self.shared.mkdir(parents=True, exist_ok=True)
        names = list(self.configuration.node_names())
        tags = {"TRAINYARD_LOCAL": str(self.cloud.state_dir), "TRAINYARD_CLUSTER": self.id}
        ports = {name: self.ports.take() for name in names}
        controller = self.ports.take()
        self.slurm = PowerSavingSlurm(self.id, self.home, controller, tags=tags, ports=ports)

    @property
    def name(self) -> str:
        return self.given_name

    @property
    def arn(self) -> str:
        digest = hashlib.sha256(self.id.encode()).hexdigest()
        uuid = "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))
        where = f"{self.cloud.region}:{self.cloud.account_id}"
        return f"arn:aws:cloudformation:{where}:stack/{self.name}/{uuid}"

    @property
    def tags(self) -> dict[str, str]:
        """Of the stack, and of every instance."""
        own = {"parallelcluster:cluster-name": self.name, "parallelcluster:version": VERSION}
        return {**self.configuration.tags, **own}

    @property
    def shared(self) -> Path:
        """A filesystem that exists outlives its clusters, and is the same for all that name it."""
        if known := self.configuration.filesystem:
            return self.cloud.state_dir / "fsx" / hashlib.sha256(known.encode()).hexdigest()[:16]
        if self.filesystem is not None and self.configuration.made_first:
            return self.filesystem.directory
        return self.directory / "shared"

    @property
    def shared_path(self) -> str:
        return self.configuration.storage[0][1] if self.configuration.storage else ""

    @property
    def log_group(self) -> str:
        return f"/aws/parallelcluster/{self.name}-{self.created_at:%Y%m%d%H%M}"

    @property
    def head(self) -> QueueNode | None:
        return next((node for node in self.instances() if node.role == "Controller"), None)

    @property
    def controller(self) -> QueueNode | None:
        """As HyperPod's clusters call it."""
        return self.head

    def instances(self) -> list[QueueNode]:
        return [node for node in self.members() if isinstance(node, QueueNode)]

    def instance_of(self, name: str) -> QueueNode | None:
        """What is behind a node of Slurm's."""
        return next((node for node in self.instances() if node.label == name), None)

    def role(self, group: str) -> str:
        if group == HEAD_NODE:
            return "Controller"
        return (
            "Login" if any(pool.name == group for pool in self.configuration.pools) else "Compute"
        )

    def permissions(self, group: str) -> Permissions:
        """What the role of these nodes has beside ParallelCluster's own."""
        configuration = self.configuration
        if group == HEAD_NODE:
            return configuration.head_permissions
        found = {queue.name: queue.permissions for queue in configuration.queues}
        return (found | {pool.name: pool.permissions for pool in configuration.pools})[group]

    def new_instance(self, group: str, label: str, kind: str, *, spot: bool = False) -> QueueNode:
        """An instance that is not started yet."""
        with self.lock:
            instance_id = new_instance_id()
            node = QueueNode(
                instance_id,
                group,
                kind,
                label,
                free_address(self),
                self.home / "nodes" / instance_id,
                self.cloud.state_dir,
                self.id,
                mounted=(self.shared, self.shared_path) if self.shared_path else None,
                hosts=self.slurm.hosts_file,
                role=self.role(group),
                spot=spot,
            )
            self.nodes[instance_id] = node
            return node

    def terminate(self, node: Node) -> None:
        """The instance and its disk are gone."""
        with self.lock:
            self.nodes.pop(node.instance_id, None)
        node.status = "terminated"
        node.destroy()

    def end_workers(self) -> None:
        for node in self.instances():
            if node.role == "Compute":
                self.terminate(node)

    def log(self, node: QueueNode, stream: str, lines: list[str]) -> None:
        """Into one of the node's logs in CloudWatch."""
        if lines:
            name = f"{node.host_name}.{node.instance_id}.{stream}"
            self.cloud.logs.write(self.log_group, name, lines)

    def scontrol(self, *arguments: str) -> str:
        """Raises subprocess.SubprocessError, OSError."""
        head = self.head
        if head is None or not head.powered:
            raise OSError("the head node is off")
        return str(self.slurm.scontrol(head.slurm_conf, *arguments))

    def update_node(self, name: str, **fields: str) -> None:
        """`scontrol update`. Raises subprocess.SubprocessError, OSError."""
        self.scontrol("update", f"nodename={name}", *(f"{k}={v}" for k, v in fields.items()))

"""One HyperPod cluster of the local cloud: what it is made of, and how it changes and ends."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from trainyard_local.hyperpod import recovery as hyperpod_recovery
from trainyard_local.hyperpod.events import announce, note
from trainyard_local.hyperpod.launch import (
    create_all_at_once,
    create_continuously,
    launch,
    launch_all,
    launch_until_up,
    lifecycle_files,
)
from trainyard_local.hyperpod.node_kinds import kind_of
from trainyard_local.local_cloud import LocalCloud
from trainyard_local.nodes import processes as node_processes
from trainyard_local.nodes.node import Node
from trainyard_local.slurm.cluster import Ports, SlurmCluster, SlurmNode, short_link

log = logging.getLogger(__name__)

#: Between two looks at the cluster's munge daemon.
KEEP_SECONDS = 0.5
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


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
    #: Instance types of which there is none: what asks for them is tried again for ever.
    without_capacity: frozenset[str] = frozenset()

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
            without_capacity=frozenset(
                filter(None, os.environ.get("TRAINYARD_LOCAL_WITHOUT_CAPACITY", "").split(","))
            ),
            duplicate_events=os.environ.get("TRAINYARD_LOCAL_DUPLICATE_EVENTS") == "1",
        )


@dataclass
class LocalCluster:
    """State under `lock`; slow work in threads of its own, which end when `closing` is set."""

    cloud: LocalCloud
    settings: Settings
    ports: Ports
    request: dict[str, Any]
    id: str = field(default_factory=lambda: "".join(secrets.choice(ALPHABET) for _ in range(12)))
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
        self.lock = threading.RLock()
        self.closing = threading.Event()
        self.threads: list[threading.Thread] = []
        self.munge: subprocess.Popen[bytes] | None = None
        self.groups: dict[str, dict[str, Any]] = {
            group["InstanceGroupName"]: dict(group) for group in self.request["InstanceGroups"]
        }
        self.tags.update({tag["Key"]: tag["Value"] for tag in self.request.get("Tags") or []})
        self.home = short_link(self.cloud.state_dir) / self.id
        self.directory.mkdir(parents=True, exist_ok=True)
        self.shared.mkdir(parents=True, exist_ok=True)
        self.kind = kind_of(self)
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
    def directory(self) -> Path:
        return self.cloud.state_dir / "clusters" / self.id

    @property
    def shared(self) -> Path:
        """The directory that takes the place of the shared filesystem.

        FSx outlives its clusters, and is the same for all clusters that name it.
        """
        for group in self.request["InstanceGroups"]:
            for storage in group.get("InstanceStorageConfigs") or []:
                if lustre := storage.get("FsxLustreConfig"):
                    digest = hashlib.sha256(
                        f"{lustre['DnsName']}/{lustre['MountName']}".encode()
                    ).hexdigest()
                    return self.cloud.state_dir / "fsx" / digest[:16]
        return self.directory / "shared"

    @property
    def log_group(self) -> str:
        return f"/aws/sagemaker/Clusters/{self.name}/{self.id}"

    @property
    def controller(self) -> Node | None:
        return next(
            (node for node in self.members() if self.role(node.group) == "Controller"), None
        )

    def members(self, group: str | None = None) -> list[Node]:
        with self.lock:
            return [node for node in self.nodes.values() if group in (None, node.group)]

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

    # -- addresses and instances ------------------------------------------------------------------

    def _new_node(self, group: str, address: str, label: str) -> Node:
        instance_id = f"i-{secrets.token_hex(9)[:17]}"
        spec = self.groups[group]
        kind = spec.get("InstanceType") or spec["InstanceRequirements"]["InstanceTypes"][0]
        home = self.home / "nodes" / instance_id
        node = self.kind.node(self, instance_id, group, kind, label, address, home)
        with self.lock:
            self.nodes[instance_id] = node
        return node

    def _fill_groups(self) -> list[Node]:
        """Make the instances that are missing to each group's count; they are not started yet."""
        made = []
        with self.lock:
            for name in sorted(self.groups, key=lambda group: self.role(group) != "Controller"):
                have = {node.label for node in self.members(name)}
                labels = (
                    f"{name}-{number}"
                    for number in range(1, self.groups[name]["InstanceCount"] + 1)
                )
                made += [
                    self._new_node(name, self.kind.address(self), label)
                    for label in labels
                    if label not in have
                ]
        return made

    def _write_slurm_nodes(self) -> None:
        if not isinstance(self.slurm, SlurmCluster):
            return  # a machine's line is written when it comes
        with self.lock:
            ports = {node.address: node.port for node in self.slurm.nodes}
            wanted = [node for node in self.members() if self.role(node.group) == "Compute"]
            gone = set(ports) - {node.address for node in wanted}
            self.ports.give_back([ports[address] for address in gone])
            self.slurm.nodes = [
                SlurmNode(
                    node.address,
                    ports.get(node.address) or self.ports.take(),
                    self.partition(node.group),
                )
                for node in wanted
            ]
            self.slurm.write_nodes()

    # -- creation ---------------------------------------------------------------------------------

    def in_background(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True, name=f"cluster-{self.name}")
        with self.lock:
            self.threads = [*(old for old in self.threads if old.is_alive()), thread]
        thread.start()

    def create(self) -> None:
        """Build everything: the controller first, then the rest.

        Runs in a thread; the outcome is the cluster's status.
        """
        try:
            announce(self)
            note(self, "Cluster", f"Cluster {self.name} creation started successfully")
            self._begin()
            self.in_background(lambda: hyperpod_recovery.watch(self))
            (create_continuously if self.continuous else create_all_at_once)(self)
        except Exception as error:
            if not self.closing.is_set():
                log.warning("cluster %s could not be set up", self.name, exc_info=error)
            self.fail(f"The cluster could not be set up: {error}")

    def _begin(self) -> None:
        self._files = lifecycle_files(self, next(iter(self.groups)))
        self._fill_groups()
        self._write_slurm_nodes()
        self.munge = self.kind.begin(self)
        if self.munge is not None:
            self.in_background(self._keep_munge)

    def _keep_munge(self) -> None:
        """Start an ended munge daemon again, as systemd does on a real node.

        Without it every question to Slurm hangs.
        """
        while not self.closing.wait(KEEP_SECONDS):
            if self.munge is not None and self.munge.poll() is not None:
                log.warning(
                    "munge of cluster %s ended with status %s: it is started again",
                    self.name,
                    self.munge.returncode,
                )
                try:
                    self.munge = self.kind.begin(self)
                except (RuntimeError, OSError) as error:
                    log.warning("munge of cluster %s cannot be started yet: %s", self.name, error)

    def successor(self, node: Node) -> Node:
        """Another instance in the place of a node that is given up.

        It has the node's label and the address that its kind of node gives, nothing else.
        """
        with self.lock:
            self.nodes.pop(node.instance_id, None)
            node.destroy()
            return self._new_node(node.group, self.kind.successor_address(self, node), node.label)

    def fail(self, message: str) -> None:
        if self.closing.is_set():
            return
        self.failure_message = message
        self.set_status("Failed")

    def release_all(self) -> None:
        with self.lock:
            gone, self.nodes = list(self.nodes.values()), {}
        node_processes.kill(self.everything(gone))
        for node in gone:
            node.destroy()

    def power_cut(self, node: Node) -> int:
        """Kill everything on the node at once."""
        killed = node.kill()
        self.notice_later(node)
        return killed

    def notice_later(self, node: Node) -> None:
        """Mark, after a while, an instance that does not answer, as HyperPod does."""

        def notice() -> None:
            self.closing.wait(self.settings.notice_seconds)
            if node.status == "Running" and not node.answers:
                node.status, node.message = "Failure", _silence(node)
                hyperpod_recovery.find_unhealthy(self, node, "Reboot", state="down")

        self.in_background(notice)

    def healed(self, node: Node) -> None:
        """Remove that mark: the instance answers again."""
        if node.answers and node.status == "Failure" and node.message == _silence(node):
            node.status, node.message = "Running", ""

    # -- repair -----------------------------------------------------------------------------------

    def replace(self, node: Node) -> None:
        """Another instance in the node's place: volumes gone, lifecycle scripts run again."""
        node.status = "ShuttingDown"

        def work() -> None:
            fresh = self.successor(node)
            note(
                self,
                "Instance",
                f"Instance {fresh.instance_id} is starting as part of instance replacement",
                fresh,
            )
            if self.continuous:
                launch_until_up(self, fresh)
            elif launch(self, fresh) is None:
                self.rejoin(fresh)

        self.in_background(work)

    def reboot(self, node: Node) -> None:
        """The same instance and disk. Services start again; lifecycle scripts do not run."""
        node.status = "Pending"

        def work() -> None:
            note(
                self,
                "Instance",
                f"Reboot of EC2 Instance {node.instance_id} is currently in progress",
                node,
            )
            try:
                node.kill()
                if self.closing.is_set():
                    return
                node.start_services()
            except Exception as error:  # noqa: BLE001 - no error leaves a node Pending for ever
                node.status, node.message = (
                    "Failure",
                    f"EC2 Instance {node.instance_id} did not boot: {error}",
                )
                return
            node.status, node.message = "Running", ""
            self.rejoin(node)

        self.in_background(work)

    def rejoin(self, node: Node) -> None:
        """HyperPod puts a repaired node back to work.

        A node that is not down says 'invalid state', which is fine.
        """
        controller = self.controller
        if self.closing.is_set() or controller is None or self.role(node.group) != "Compute":
            return
        try:
            self.slurm.scontrol(
                controller.slurm_conf, "update", f"nodename={node.name}", "state=resume"
            )
        except (subprocess.SubprocessError, OSError):
            pass

    # -- change and end ---------------------------------------------------------------------------

    def update(self, groups: list[dict[str, Any]]) -> None:
        """Scale groups to their new counts. A Continuous cluster stays InService meanwhile."""
        if not self.continuous:
            self.set_status("Updating")
        with self.lock:
            for group in groups:
                self.groups[group["InstanceGroupName"]] = {
                    **self.groups.get(group["InstanceGroupName"], {}),
                    **group,
                }
        self.in_background(self._scale)

    def _scale(self) -> None:
        try:
            failed = self._scaled()
        except Exception as error:
            log.warning("cluster %s could not be scaled", self.name, exc_info=error)
            failed = f"The cluster could not be scaled: {error}"
        if not self.closing.is_set() and not self.continuous:
            self.failure_message = failed
            self.set_status("InService")

    def _scaled(self) -> str:
        """Make and remove instances until each group has its count.

        Returns why an instance failed, if one did.
        """
        for name, group in self.groups.items():
            for node in self.members(name)[group["InstanceCount"] :]:
                with self.lock:
                    self.nodes.pop(node.instance_id, None)
                node.destroy()
        fresh = self._fill_groups()
        self._write_slurm_nodes()
        self._restart_controller()
        failures = [failed for _, failed in launch_all(self, fresh) if failed]
        return str(failures[0]) if failures else ""

    def _restart_controller(self) -> None:
        if controller := self.controller:
            self.kind.restart_controller(self, controller)

    def delete(self, forget: Callable[[], None]) -> None:
        """Kill and remove everything in the background; `forget` is called when nothing is left."""
        self.closing.set()
        self.set_status("Deleting")

        def work() -> None:
            self.close()
            forget()
            # AWS has no event "deleted", but sends state changes more than once. The last one may
            # come when the cluster is gone.
            announce(self)

        threading.Thread(target=work, daemon=True).start()

    def close(self) -> None:
        """End the cluster's processes and threads, remove its directory; safe to call again."""
        self.closing.set()
        known = self.members()
        while True:
            node_processes.kill(self.everything(known))
            alive = [
                thread
                for thread in self.threads
                if thread.is_alive() and thread is not threading.current_thread()
            ]
            if not alive:
                break
            alive[0].join(0.05)
        if self.munge:
            self.munge.wait()
        self.kind.closed(self, self.members())
        self.nodes.clear()
        self.ports.give_back(
            [self.slurm.controller_port, *(node.port for node in self.slurm.nodes)]
        )
        shutil.rmtree(self.directory, ignore_errors=True)

    def everything(self, nodes: list[Node]) -> Callable[[Mapping[str, str]], bool]:
        return node_processes.of_cluster(
            self.cloud.state_dir, self.id, [node.name for node in nodes]
        )

    def set_status(self, status: str) -> None:
        with self.lock:
            # A deletion that began meanwhile decides the status.
            if self.closing.is_set() and status != "Deleting":
                return
            self.status = status
        announce(self)


def _silence(node: Node) -> str:
    return f"EC2 Instance {node.instance_id} does not answer"

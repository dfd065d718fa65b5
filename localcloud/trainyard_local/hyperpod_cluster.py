"""One HyperPod cluster of the local cloud: what it is made of, and how its instances come, go and are repaired."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import node_processes
from .cloud import Cloud
from .nodes import LifecycleFailed, Node
from .slurm import Ports, SlurmCluster, SlurmNode, require_programs, short_link

STATE_CHANGE = "SageMaker HyperPod Cluster State Change"
CLUSTER_EVENT = "SageMaker HyperPod Cluster Event"
NODE_HEALTH = "SageMaker HyperPod Cluster Node Health Event"
FIRST_HOST = 10
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


def now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(frozen=True)
class Settings:
    """What tests and demos may want otherwise; each from an environment variable of the server."""

    lifecycle_timeout_seconds: float = 600.0
    retry_seconds: float = 5.0
    slurm_port: int = 21000
    duplicate_events: bool = False

    @classmethod
    def from_env(cls, cloud: Cloud) -> Settings:
        """Clouds on different ports get different Slurm ports: 4780 -> 28000 and the thousand after it."""
        return cls(
            lifecycle_timeout_seconds=float(os.environ.get("TRAINYARD_LOCAL_LIFECYCLE_TIMEOUT", "600")),
            retry_seconds=float(os.environ.get("TRAINYARD_LOCAL_RETRY_SECONDS", "5")),
            slurm_port=int(os.environ.get("TRAINYARD_LOCAL_SLURM_PORT", str(20000 + cloud.port % 100 * 100))),
            duplicate_events=os.environ.get("TRAINYARD_LOCAL_DUPLICATE_EVENTS") == "1",
        )


@dataclass
class LocalCluster:
    """State under `lock`; slow work in threads of its own, which end when `closing` is set."""

    cloud: Cloud
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

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        self.closing = threading.Event()
        self.threads: list[threading.Thread] = []
        self.munge: subprocess.Popen[bytes] | None = None
        self.groups: dict[str, dict[str, Any]] = {group["InstanceGroupName"]: dict(group) for group in self.request["InstanceGroups"]}
        self.tags.update({tag["Key"]: tag["Value"] for tag in self.request.get("Tags") or []})
        self.home = short_link(self.cloud.state_dir) / self.id
        self.directory.mkdir(parents=True, exist_ok=True)
        self.shared.mkdir(parents=True, exist_ok=True)
        self._plan_addresses()
        self.slurm = SlurmCluster(self.id, self.home, "", self.ports.take())
        self._files: dict[str, bytes] = {}

    # -- what it is ------------------------------------------------------------------------------------------------

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
        """The directory that stands for the shared filesystem. FSx outlives its clusters, and is the same for all that name it."""
        for group in self.request["InstanceGroups"]:
            for storage in group.get("InstanceStorageConfigs") or []:
                if lustre := storage.get("FsxLustreConfig"):
                    digest = hashlib.sha256(f"{lustre['DnsName']}/{lustre['MountName']}".encode()).hexdigest()
                    return self.cloud.state_dir / "fsx" / digest[:16]
        return self.directory / "shared"

    @property
    def log_group(self) -> str:
        return f"/aws/sagemaker/Clusters/{self.name}/{self.id}"

    @property
    def controller(self) -> Node | None:
        return next((node for node in self.members() if self.role(node.group) == "Controller"), None)

    def members(self, group: str | None = None) -> list[Node]:
        with self.lock:
            return [node for node in self.nodes.values() if group in (None, node.group)]

    def role(self, group: str) -> str:
        """Controller, Login or Compute: from SlurmConfig, else from provisioning_parameters.json."""
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
        return next((str(entry["partition_name"]) for entry in workers if entry.get("instance_group_name") == group), "dev")

    def _provisioning_parameters(self) -> dict[str, Any]:
        try:
            value = json.loads(self._files.get("provisioning_parameters.json", b"{}"))
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    # -- addresses and instances -----------------------------------------------------------------------------------

    def _plan_addresses(self) -> None:
        """A /24 of loopback of the cluster's own, spread so that two local clouds on one machine hardly ever meet."""
        digest = hashlib.sha256(f"{self.cloud.state_dir}:{self.id}".encode()).digest()
        self._network = f"127.{16 + digest[0] % 224}.{digest[1]}"

    def _free_address(self) -> str:
        taken = {node.address for node in self.nodes.values()}
        return next(a for n in range(FIRST_HOST, 255) if (a := f"{self._network}.{n}") not in taken)

    def _new_node(self, group: str, address: str, label: str) -> Node:
        instance_id = f"i-{secrets.token_hex(9)[:17]}"
        spec = self.groups[group]
        kind = spec.get("InstanceType") or spec["InstanceRequirements"]["InstanceTypes"][0]
        home = self.home / "nodes" / instance_id
        node = Node(instance_id, group, kind, label, address, home, self.cloud.state_dir, self.id)
        with self.lock:
            self.nodes[instance_id] = node
        return node

    def _fill_groups(self) -> list[Node]:
        """Make the instances that are missing to each group's count; they are not started yet."""
        made = []
        with self.lock:
            for name in sorted(self.groups, key=lambda group: self.role(group) != "Controller"):
                have = {node.label for node in self.members(name)}
                labels = (f"{name}-{number}" for number in range(1, self.groups[name]["InstanceCount"] + 1))
                made += [self._new_node(name, self._free_address(), label) for label in labels if label not in have]
        return made

    def resource_config(self) -> dict[str, Any]:
        """resource_config.json, in HyperPod's layout."""
        controller = self.controller
        return {
            "ClusterConfig": {"ClusterName": self.name, "ClusterArn": self.arn},
            "ClusterType": "Slurm",
            "SlurmConfig": {"PrimaryControllerIp": controller.address if controller else "", "SecondaryControllerIps": []},
            "InstanceGroups": [
                {
                    "Name": name,
                    "InstanceType": group.get("InstanceType", ""),
                    "Instances": [node.config() for node in self.members(name)],
                }
                for name, group in self.groups.items()
            ],
        }

    def _write_slurm_nodes(self) -> None:
        with self.lock:
            ports = {node.address: node.port for node in self.slurm.nodes}
            wanted = [node for node in self.members() if self.role(node.group) == "Compute"]
            gone = set(ports) - {node.address for node in wanted}
            self.ports.give_back([ports[address] for address in gone])
            self.slurm.nodes = [
                SlurmNode(node.address, ports.get(node.address) or self.ports.take(), self.partition(node.group)) for node in wanted
            ]
            self.slurm.write_nodes()

    # -- creation --------------------------------------------------------------------------------------------------

    def in_background(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True, name=f"cluster-{self.name}")
        with self.lock:
            self.threads = [*(old for old in self.threads if old.is_alive()), thread]
        thread.start()

    def create(self) -> None:
        """Build everything: the controller first, then the rest. Runs in a thread; the outcome is the cluster's status."""
        self.announce()
        self.note("Cluster", f"Cluster {self.name} creation started successfully")
        try:
            self._begin()
        except (RuntimeError, OSError) as error:
            self._fail(f"The cluster could not be set up: {error}")
            return
        first = [node for node in self.members() if self.role(node.group) == "Controller"]
        rest = [node for node in self.members() if node not in first]
        if self.continuous:
            logins = [node for node in rest if self.role(node.group) == "Login"]
            self._create_continuously(first + logins, [node for node in rest if node not in logins])
        else:
            self._create_all_at_once(first, rest)

    def _begin(self) -> None:
        require_programs()
        self._files = self._download(next(iter(self.groups)))
        self._fill_groups()
        controller = self.controller
        self.slurm.controller_address = controller.address if controller else ""
        self._write_slurm_nodes()
        self.munge = self.slurm.start_munge({"TRAINYARD_LOCAL": str(self.cloud.state_dir), "TRAINYARD_CLUSTER": self.id})

    def _create_continuously(self, first: list[Node], workers: list[Node]) -> None:
        """InService as soon as controller and login nodes are up; workers come later, and are retried without end."""
        for node, failed in self._launch_all(first):
            if failed and not self.closing.is_set():
                self._fail(provisioning_failure(node, failed))
                return
        self.set_status("InService")
        self.note("Cluster", f"Cluster {self.name} creation completed successfully")
        for node in workers:
            self.in_background(lambda node=node: self._launch_until_up(node))  # type: ignore[misc]

    def _create_all_at_once(self, first: list[Node], rest: list[Node]) -> None:
        for stage in (first, rest):
            for node, failed in self._launch_all(stage):
                if failed and not self.closing.is_set():
                    self.set_status("RollingBack")
                    self._release_all()
                    self._fail(provisioning_failure(node, failed))
                    return
        self.set_status("InService")

    def _launch_all(self, nodes: list[Node]) -> Iterator[tuple[Node, LifecycleFailed | None]]:
        with ThreadPoolExecutor(max_workers=8) as pool:
            yield from zip(nodes, pool.map(self._launch, nodes), strict=True)

    def _launch(self, node: Node) -> LifecycleFailed | None:
        """Prepare one instance and run its lifecycle scripts; leaves it Running, or in Failure and switched off."""
        if self.closing.is_set():
            return None
        try:
            lines = self._run_lifecycle(node)
        except LifecycleFailed as failed:
            self._log(node, failed.lines)
            if self.closing.is_set():
                return None
            node.kill()
            node.status, node.message = "Failure", str(failed)
            self.note("Instance", f"Failed to provision EC2 Instance {node.instance_id} in instance group {node.group}", node, "Error")
            return failed
        self._log(node, [*lines, "[SageMaker] The lifecycle scripts succeeded."])
        node.status, node.message = "Running", ""
        self.note("Instance", f"EC2 Instance {node.instance_id} successfully provisioned in instance group {node.group}", node)
        return None

    def _run_lifecycle(self, node: Node) -> list[str]:
        group = self.groups[node.group]
        try:
            credentials = self.cloud.credentials(group["ExecutionRole"], node.instance_id)
            aws = {"AWS_ENDPOINT_URL": self.cloud.endpoint, "AWS_REGION": self.cloud.region, "AWS_DEFAULT_REGION": self.cloud.region}
            node.prepare(self.slurm, self.resource_config(), self.shared, aws | credentials)
            config = group.get("LifeCycleConfig") or {}
            files = self._download(node.group)
            lines: list[str] = []
            node.powered = True
            for entry in filter(None, (config.get("OnCreate"), config.get("OnInitComplete"))):
                lines += node.run_lifecycle(files, entry, self.settings.lifecycle_timeout_seconds)
        except OSError as error:
            raise LifecycleFailed([f"[SageMaker] The instance could not be prepared: {error}"]) from error
        return lines

    def _download(self, group: str) -> dict[str, bytes]:
        uri = (self.groups[group].get("LifeCycleConfig") or {}).get("SourceS3Uri")
        if not uri:
            return {}
        parts = urlsplit(uri)
        prefix = parts.path.strip("/")
        return self.cloud.read_prefix(parts.netloc, f"{prefix}/" if prefix else "")

    def _launch_until_up(self, node: Node) -> None:
        while self._launch(node) is not None:
            # A failed instance is given up and another one takes its place, at the same address.
            if self.closing.wait(self.settings.retry_seconds) or node.instance_id not in self.nodes:
                return
            node = self._successor(node)
        self._rejoin(node)

    def _successor(self, node: Node) -> Node:
        with self.lock:
            self.nodes.pop(node.instance_id, None)
            node.destroy()
            return self._new_node(node.group, node.address, node.label)

    def _fail(self, message: str) -> None:
        if self.closing.is_set():
            return
        self.failure_message = message
        self.set_status("Failed")

    def _release_all(self) -> None:
        with self.lock:
            gone, self.nodes = list(self.nodes.values()), {}
        node_processes.kill(self.everything(gone))
        for node in gone:
            node.destroy()

    def _log(self, node: Node, lines: list[str]) -> None:
        stream = f"LifecycleConfig/{node.group}/{node.instance_id}"
        self.cloud.write_log(self.log_group, stream, ["[SageMaker] Downloading lifecycle scripts", *lines])

    # -- repair ----------------------------------------------------------------------------------------------------

    def replace(self, node: Node) -> None:
        """Another instance behind the same address and name: volumes gone, lifecycle scripts run again."""
        node.status = "ShuttingDown"

        def work() -> None:
            fresh = self._successor(node)
            self.note("Instance", f"Instance {fresh.instance_id} is starting as part of instance replacement", fresh)
            if self.continuous:
                self._launch_until_up(fresh)
            elif self._launch(fresh) is None:
                self._rejoin(fresh)

        self.in_background(work)

    def reboot(self, node: Node) -> None:
        """The same instance and disk; lifecycle scripts do not run, but the services start again."""
        node.status = "Pending"

        def work() -> None:
            self.note("Instance", f"Reboot of EC2 Instance {node.instance_id} is currently in progress", node)
            node.kill()
            if self.closing.is_set():
                return
            node.start_services()
            node.status = "Running"
            self._rejoin(node)

        self.in_background(work)

    def _rejoin(self, node: Node) -> None:
        """HyperPod puts a repaired node back to work; a node that is not down says 'invalid state', which is fine."""
        controller = self.controller
        if self.closing.is_set() or controller is None or self.role(node.group) != "Compute":
            return
        try:
            self.slurm.scontrol(controller.slurm_conf, "update", f"nodename={node.name}", "state=resume")
        except (subprocess.SubprocessError, OSError):
            pass

    # -- change and end --------------------------------------------------------------------------------------------

    def update(self, groups: list[dict[str, Any]]) -> None:
        """Scale groups to their new counts. A Continuous cluster stays InService meanwhile."""
        if not self.continuous:
            self.set_status("Updating")
        with self.lock:
            for group in groups:
                self.groups[group["InstanceGroupName"]] = {**self.groups.get(group["InstanceGroupName"], {}), **group}
        self.in_background(self._scale)

    def _scale(self) -> None:
        for name, group in self.groups.items():
            for node in self.members(name)[group["InstanceCount"] :]:
                with self.lock:
                    self.nodes.pop(node.instance_id, None)
                node.destroy()
        fresh = self._fill_groups()
        self._write_slurm_nodes()
        self._restart_controller()
        failures = [failed for _, failed in self._launch_all(fresh) if failed]
        if not self.closing.is_set() and not self.continuous:
            self.failure_message = str(failures[0]) if failures else ""
            self.set_status("InService")

    def _restart_controller(self) -> None:
        """Slurm 22.05 learns of new nodes only when slurmctld starts."""
        controller = self.controller
        if controller is None:
            return
        # With SIGTERM, or it would not save its state and jobs that ended would run again.
        node_processes.end_pids(process.pid for process in controller.processes() if process.name == "slurmctld")
        controller.start_services()
        try:
            self.slurm.scontrol(controller.slurm_conf, "reconfigure")
        except (subprocess.SubprocessError, OSError):
            pass

    def delete(self, forget: Callable[[], None]) -> None:
        """Kill and remove everything in the background; `forget` is called when nothing is left."""
        self.closing.set()
        self.set_status("Deleting")

        def work() -> None:
            self.close()
            forget()
            # AWS has no event "deleted" but sends state changes more than once; the last one may come when it is gone.
            self.announce()

        threading.Thread(target=work, daemon=True).start()

    def close(self) -> None:
        """End every process and thread of the cluster and remove its directory; safe to call again."""
        self.closing.set()
        known = self.members()
        while True:
            node_processes.kill(self.everything(known))
            alive = [thread for thread in self.threads if thread.is_alive() and thread is not threading.current_thread()]
            if not alive:
                break
            alive[0].join(0.05)
        if self.munge:
            self.munge.wait()
        self.nodes.clear()
        self.ports.give_back([self.slurm.controller_port, *(node.port for node in self.slurm.nodes)])
        shutil.rmtree(self.directory, ignore_errors=True)

    def everything(self, nodes: list[Node]) -> Callable[[Mapping[str, str]], bool]:
        return node_processes.of_cluster(self.cloud.state_dir, self.id, [node.name for node in nodes])

    # -- events ----------------------------------------------------------------------------------------------------

    def set_status(self, status: str) -> None:
        with self.lock:
            # A deletion that began meanwhile is the newer word.
            if self.closing.is_set() and status != "Deleting":
                return
            self.status = status
        self.announce()

    def announce(self) -> None:
        """Send the state change; AWS may send it more than once, so may we."""
        for _ in range(2 if self.settings.duplicate_events else 1):
            self.cloud.put_event("aws.sagemaker", STATE_CHANGE, self.state_change(), [self.arn])

    def state_change(self) -> dict[str, Any]:
        described = self.describe()
        return {
            "ClusterArn": self.arn,
            "ClusterName": self.name,
            "ClusterStatus": self.status,
            "CreationTime": milliseconds(self.created_at),
            "FailureMessage": self.failure_message,
            "InstanceGroups": [{"TrainingPlanArn": "", "OverrideVpcConfig": None, **group} for group in described["InstanceGroups"]],
            "VpcConfig": self.request.get("VpcConfig") or {},
            "Orchestrator": self.request.get("Orchestrator") or {},
            "NodeRecovery": self.request.get("NodeRecovery", "Automatic"),
            "SdkResponseMetadata": None,
            "Tags": dict(self.tags),
        }

    def note(self, resource: str, description: str, node: Node | None = None, level: str = "Info") -> None:
        """Keep a cluster event and send it; only Continuous clusters have them. The bus's copy carries no metadata, as on AWS."""
        if not self.continuous:
            return
        at = now()
        event: dict[str, Any] = {
            "EventId": str(uuid.uuid4()),
            "ClusterArn": self.arn,
            "ClusterName": self.name,
            "ResourceType": resource,
            "EventTime": at,
            "Description": description,
            "EventLevel": level,
        }
        if node is not None:
            event |= {"InstanceGroupName": node.group, "InstanceId": node.instance_id}
        with self.lock:
            self.events.append(event)
        sent = {**event, "EventTime": milliseconds(at), "EventDetails": {"EventMetadata": None}}
        self.cloud.put_event("aws.sagemaker", CLUSTER_EVENT, {"EventDetails": sent}, [self.arn])

    def report_health(self, node: Node, status: str, reason: str | None, action: str) -> None:
        """Send a node health event; only on request, since HyperPod watches GPU and Trainium nodes only."""
        summary = {"HealthStatus": status, "HealthStatusReason": reason, "RepairAction": action, "Recommendation": None}
        detail = {
            "ClusterName": self.name,
            "ClusterArn": self.arn,
            "InstanceId": node.instance_id,
            "HealthSummary": summary,
            "EventTime": None,
            "Tags": dict(self.tags),
        }
        self.cloud.put_event("aws.sagemaker", NODE_HEALTH, detail, [self.arn])

    # -- answers ---------------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        answer = {
            "ClusterArn": self.arn,
            "ClusterName": self.name,
            "ClusterStatus": self.status,
            "CreationTime": self.created_at,
            "FailureMessage": self.failure_message,
            "InstanceGroups": [self._describe_group(group) for group in self.groups.values()],
            "NodeRecovery": self.request.get("NodeRecovery", "Automatic"),
        }
        optional = ("VpcConfig", "Orchestrator", "NodeProvisioningMode", "ClusterRole")
        return answer | {key: self.request[key] for key in optional if self.request.get(key)}

    def _describe_group(self, group: Mapping[str, Any]) -> dict[str, Any]:
        kept = ("InstanceGroupName", "InstanceType", "LifeCycleConfig", "ExecutionRole", "ThreadsPerCore", "InstanceStorageConfigs",
                "OnStartDeepHealthChecks", "TrainingPlanArn", "OverrideVpcConfig", "SlurmConfig")  # fmt: skip
        members = self.members(group["InstanceGroupName"])
        running = sum(node.status == "Running" for node in members)
        return {
            **{key: group[key] for key in kept if group.get(key) is not None},
            "CurrentCount": running,
            "TargetCount": group["InstanceCount"],
            "Status": self._group_status(running, group["InstanceCount"], [node.status for node in members]),
        }

    def _group_status(self, running: int, target: int, states: list[str]) -> str:
        if self.status in ("Deleting", "Failed"):
            return self.status
        if running >= target:
            return "InService"
        return "Degraded" if "Failure" in states else "Creating" if self.status == "Creating" or self.continuous else "Updating"


def provisioning_failure(node: Node, failed: LifecycleFailed) -> str:
    """HyperPod's FailureMessage for an instance whose lifecycle scripts failed."""
    return f'Instance {node.instance_id} failed to provision with the following error: "{failed}"'


def milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)

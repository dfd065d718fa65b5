"""A cloud of HyperPod and Session Manager on moto: real nodes, and a stand-in for the agent."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import boto3
import psutil
from botocore.config import Config
from moto.server import ThreadedMotoServer
from tests.support.repository import ROOT
from tests.support.spec_parts import FILESYSTEM
from tests.support.waiting import eventually

import trainyard_job
import trainyard_trainers
from sam_on_moto.iam.access import Access
from sam_on_moto.inside.logs import LogWriter
from trainyard_agent import host
from trainyard_agent.host import atomic_file, slurm_settings
from trainyard_local import faults
from trainyard_local.hyperpod import service as hyperpod
from trainyard_local.hyperpod.cluster import LocalCluster
from trainyard_local.hyperpod.state import Settings
from trainyard_local.local_cloud import LocalCloud
from trainyard_local.nodes import processes as node_processes
from trainyard_local.nodes.node import Node
from trainyard_local.sessions import service as sessions

#: What the lifecycle scripts import of the trainers.
TRAINERS_FILES = (
    "__init__.py",
    "launch/__init__.py",
    "launch/environments.py",
)
LIFECYCLE = ROOT / "node_agent" / "lifecycle"
ROLE = "arn:aws:iam::123456789012:role/Node"
AGENT = """
import json, os, sys, time
def main():
    if sys.argv[1] == "daemon":
        config = json.load(open(sys.argv[3]))
        open(config["stateDir"] + "/agent-started", "a").write(f"{os.getpid()}\\n")
        while True:
            time.sleep(60)
    if sys.argv[1] == "notify-job-end":
        root = os.environ["TRAINYARD_ROOT"]
        with open(root + "/var/lib/trainyard/job-ends", "a") as ends:
            ends.write(os.environ.get("SLURM_JOB_ID", "?") + "\\n")
        return 0
    print(json.dumps({"argv": sys.argv[1:], "root": os.environ["TRAINYARD_ROOT"]}))
    return 0
"""


class AnyRole(Access):
    """Every role is there, trusts everybody, and has the same keys."""

    def may_assume(self, role_arn: str, service: str) -> bool:
        return True

    def environment(self, role_arn: str, session: str) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "node", "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_SESSION_TOKEN": "token",
        }  # fmt: skip


class KeptLogs(LogWriter):
    """What is logged, by group and stream."""

    def __init__(self, kept: dict[str, list[str]]) -> None:
        super().__init__()
        self._kept = kept

    def write(self, group: str, stream: str, lines: list[str]) -> None:
        self._kept.setdefault(f"{group}:{stream}", []).extend(lines)


class NodeCloud:
    """What tests use: boto3 clients, all that was published and logged, and lifecycle files."""

    def __init__(self, state_dir: Path, *, kms_key: str | None = None, **settings: Any) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.logs: dict[str, list[str]] = {}
        self.files = bundle()
        self._moto = ThreadedMotoServer(ip_address="127.0.0.1", port=free_port(4900), verbose=False)
        self._moto.start()
        port = int(self._moto.get_host_and_port()[1])
        self.cloud = LocalCloud(
            state_dir.resolve(),
            port,
            access=AnyRole(),
            logs=KeptLogs(self.logs),
            put_event=lambda source, kind, detail, resources: self.events.append(
                (kind, json.loads(json.dumps(detail)))
            ),
            read_prefix=lambda bucket, prefix: self.read_prefix(bucket, prefix),
            session_port=free_port(4950),
        )
        self.hyperpod = hyperpod.install(
            self.cloud, Settings(slurm_port=22000, **{"retry_seconds": 0.2, **settings})
        )
        self.sessions = sessions.install(self.cloud, kms_key)
        self.sagemaker = self.client("sagemaker")
        self.ssm = self.client("ssm")
        secrets = self.client("secretsmanager")
        with contextlib.suppress(
            secrets.exceptions.ResourceExistsException
        ):  # moto's state outlives a cloud of the same process
            secrets.create_secret(Name="trainyard/test/agent-key", SecretString="k" * 64)

    def read_prefix(self, bucket: str, prefix: str) -> dict[str, bytes]:
        return dict(self.files)

    def client(self, service: str) -> Any:
        keys = {
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
            "region_name": "us-east-1",
        }
        return boto3.client(
            service,
            endpoint_url=self.cloud.endpoint,
            config=Config(retries={"max_attempts": 0}),
            **keys,
        )

    def close(self) -> None:
        for callback in reversed(self.cloud.on_shutdown):
            callback()
        self._moto.stop()

    def request(self, name: str, workers: int = 2, **more: Any) -> dict[str, Any]:
        lifecycle = {"SourceS3Uri": "s3://sagemaker-data/clusters/x/", "OnCreate": "on_create.sh"}
        common = {
            "InstanceType": "ml.m5.large",
            "LifeCycleConfig": lifecycle,
            "ExecutionRole": ROLE,
        }
        groups = [
            {"InstanceGroupName": "controller-group", "InstanceCount": 1,
             "SlurmConfig": {"NodeType": "Controller"}, **common},
            {
                "InstanceGroupName": "workers", "InstanceCount": workers,
                "SlurmConfig": {"NodeType": "Compute", "PartitionNames": ["main"]}, **common,
            },
        ]  # fmt: skip
        return {
            "ClusterName": name,
            "InstanceGroups": groups,
            "Orchestrator": {"Slurm": {}},
            "NodeProvisioningMode": "Continuous",
            **more,
        }

    def create(self, name: str, workers: int = 2, **more: Any) -> LocalCluster:
        """Create a cluster and wait until every worker is idle in Slurm."""
        self.sagemaker.create_cluster(**self.request(name, workers, **more))
        cluster = self.hyperpod.find(name)
        eventually("cluster created", lambda: cluster.status != "Creating")
        assert cluster.status == "InService", cluster.failure_message + json.dumps(
            self.logs, indent=1
        )
        eventually(f"{workers} nodes idle in Slurm", lambda: len(self.idle(cluster)) == workers)
        eventually(
            "all nodes Running", lambda: all(node.status == "Running" for node in cluster.members())
        )
        return cluster

    def idle(self, cluster: LocalCluster) -> list[str]:
        return self.slurm(cluster, "sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split()

    def slurm(self, cluster: LocalCluster, *argv: str) -> str:
        assert cluster.controller is not None
        environment = {
            "PATH": os.environ["PATH"] + ":/usr/sbin",
            "SLURM_CONF": str(cluster.controller.slurm_conf),
        }
        return subprocess.run(
            argv, env=environment, capture_output=True, text=True, timeout=120, check=False
        ).stdout

    def submit(
        self, cluster: LocalCluster, nodes: int = 1, seconds: int = 60, **variables: str
    ) -> str:
        """A job that runs `sleep` on every node, in the environment the agent gives to jobs."""
        script = cluster.shared / "job.sh"
        script.write_text(f"#!/bin/bash\nsrun sleep {seconds}\n")
        exported = {"TRAINYARD_LOCAL": str(self.cloud.state_dir), **variables}
        listing = "--export=" + ",".join(
            f"{key}={value}" for key, value in {"PATH": os.environ["PATH"], **exported}.items()
        )
        job = self.slurm(
            cluster,
            "sbatch",
            "--parsable",
            f"--nodes={nodes}",
            "--no-requeue",
            "--output=/dev/null",
            listing,
            str(script),
        ).strip()
        eventually(
            f"job {job} runs",
            lambda: self.slurm(cluster, "squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING",
        )
        eventually("the job's processes are there", lambda: len(self.sleeping(cluster)) >= nodes)
        return job

    def of_jobs(self, cluster: LocalCluster) -> list[node_processes.Process]:
        """What Slurm started on the workers, as faults see it: scripts, `srun` and epilogs too."""
        return [
            p
            for node in self.workers(cluster)
            for p in node.processes()
            if "SLURMD_NODENAME" in p.environment
        ]

    def sleeping(self, cluster: LocalCluster) -> list[node_processes.Process]:
        return [process for process in self.of_jobs(cluster) if process.name == "sleep"]

    def workers(self, cluster: LocalCluster) -> list[Node]:
        return cluster.members("workers")

    def delete(self, name: str) -> None:
        self.sagemaker.delete_cluster(ClusterName=name)
        eventually(f"cluster {name} gone", lambda: name not in self.hyperpod.clusters)

    def leftovers(self) -> list[str]:
        """Commands of all that this cloud started and that still runs, by tag and by directory."""
        return [
            process.command
            for process in node_processes.matching(node_processes.of_cloud(self.cloud.state_dir))
        ] + self.inside(self.cloud.state_dir)

    def listeners(self) -> set[tuple[str, str]]:
        """Program and address of every TCP port on which this cloud's clusters listen."""
        found = set()
        for process in node_processes.matching(node_processes.of_cloud(self.cloud.state_dir)):
            with contextlib.suppress(psutil.Error):
                ports = psutil.Process(process.pid).net_connections("tcp")
                found |= {
                    (process.name, port.laddr.ip)
                    for port in ports
                    if port.status == psutil.CONN_LISTEN
                }
        return found

    def inside(self, directory: Path) -> list[str]:
        """Names of living processes that work in `directory`, which may be gone."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and f"{os.readlink(entry / 'cwd')}/".startswith(
                    (f"{directory}/", f"{directory} ")
                ):
                    found.append((entry / "comm").read_text().strip())
        return found

    def fault(self, kind: str, cluster: LocalCluster, **more: Any) -> dict[str, Any]:
        return faults.apply(self.cloud, {"kind": kind, "cluster": cluster.name, **more})

    def target(self, cluster: LocalCluster, node: Node) -> str:
        return f"sagemaker-cluster:{cluster.id}_{node.group}-{node.instance_id}"

    def statuses(self, name: str) -> list[str]:
        return [
            detail["ClusterStatus"]
            for kind, detail in self.events
            if kind.endswith("State Change") and detail["ClusterName"] == name
        ]

    def log_text(self, cluster: LocalCluster) -> str:
        return "\n".join(
            line for key, lines in self.logs.items() if cluster.id in key for line in lines
        )


def bundle() -> dict[str, bytes]:
    """What the control plane uploads: lifecycle scripts, cluster.json, a stand-in for the agent."""
    files = {path.name: path.read_bytes() for path in LIFECYCLE.iterdir() if path.is_file()}
    files["cluster.json"] = json.dumps(cluster_json()).encode()
    files["lib/trainyard_agent/__init__.py"] = b""
    files["lib/trainyard_agent/cli.py"] = AGENT.encode()
    for module in (host, atomic_file, slurm_settings):  # what the lifecycle scripts import
        path = Path(str(module.__file__))
        files[f"lib/trainyard_agent/host/{path.name}"] = path.read_bytes()
    package = Path(str(trainyard_trainers.__file__)).parent
    for name in TRAINERS_FILES:
        files[f"lib/trainyard_trainers/{name}"] = (package / name).read_bytes()
    library = Path(str(trainyard_job.__file__)).parent
    for path in library.rglob("*.py"):
        name = path.relative_to(library.parent).as_posix()
        files[f"lib/{name}"] = path.read_bytes()
    return files


def cluster_json() -> dict[str, Any]:
    return {
        "clusterName": "test", "region": "us-east-1", "eventBus": "bus",
        "dataBucket": "sagemaker-data", "secretName": "trainyard/test/agent-key",
        "heartbeatSeconds": 2,
        "environment": {"kind": "existing", "path": "/opt/trainyard/env"},
        "users": [
            {"name": "ada", "uid": 2001, "sshKeys": ["ssh-ed25519 AAAA $(touch /tmp/pwned) ada"]},
        ],
        "s3Mounts": [
            {"bucket": "sagemaker-corpus", "mountPath": "/data/corpus", "prefix": None},
        ],
        "sharedFilesystem": {**FILESYSTEM, "mountPath": "/fsx"},
        "controllerGroup": "controller-group",
        "workerGroups": [{"name": "workers", "partition": "main"}],
        "expectedWorkers": 2, "linkPort": 4990,
    }  # fmt: skip


def free_port(first: int) -> int:
    for port in range(first, first + 50):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise RuntimeError(f"no free port from {first}")

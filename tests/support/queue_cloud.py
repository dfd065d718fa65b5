"""A local cloud whose ParallelCluster is quick: its API by our client, its clusters, its Slurm."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from botocore.credentials import Credentials
from tests.support.repository import ROOT
from tests.support.system import System

from trainyard.backends.parallelcluster.api import ParallelClusterApi
from trainyard_local import control
from trainyard_local.nodes import processes as node_processes
from trainyard_sdk.client import Client

Json = dict[str, Any]
#: The daemon's minute, and Slurm's half a minute, are nothing that a test wants to wait for.
QUICK = {
    "CLUSTERMGTD": "1",
    "POWER": "1",
    "SUSPEND": "3",
    "NO_CAPACITY": "5",
    "SPOT_NOTICE": "40",
}


@dataclass(frozen=True)
class QueueCloud:
    """One local cloud that is up."""

    system: System

    @cached_property
    def api(self) -> ParallelClusterApi:
        local = self.system.local
        keys = Credentials(local["accessKeyId"], local["secretAccessKey"])
        url = f"{local['endpoint']}/_parallelcluster"
        return ParallelClusterApi(url, local["region"], lambda: keys)

    def aws(self, service: str) -> Any:
        return self.system.aws(service)

    def make(self, spec: Json) -> None:
        """Make a cluster through the control plane, and wait until its agent says it is ready."""
        self.system.api.create_cluster(spec)
        self.system.cluster_ready(spec["name"], 180)

    def directory(self, cluster: str) -> Path:
        status = self.system.status()
        found = next(one for one in status["nodes"]["clusters"] if one["name"] == cluster)
        return self.system.state_dir / "clusters" / found["id"]

    def slurm(self, cluster: str, *argv: str) -> str:
        head = next(
            instance.instance_id
            for instance in self.api.instances(cluster)
            if instance.node_type == "HeadNode"
        )
        conf = self.directory(cluster) / "nodes" / head / "root/opt/slurm/etc/slurm.conf"
        done = subprocess.run(
            argv,
            env={"PATH": "/usr/bin:/bin", "SLURM_CONF": str(conf)},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return done.stdout + done.stderr

    def log(self, cluster: str, daemon: str) -> str:
        """What one of Slurm's daemons on the head node has written."""
        (head,) = self.directory(cluster).glob(f"nodes/*/root/var/log/slurm/{daemon}.log")
        return head.read_text(errors="replace")

    def states(self, cluster: str) -> dict[str, str]:
        """Slurm's states of its nodes, by their names."""
        lines = self.slurm(cluster, "sinfo", "-h", "-N", "-o", "%N %T").splitlines()
        pairs = (line.split() for line in lines)
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}

    def workers(self, cluster: str, queue: str) -> list[str]:
        """Instances of the queue that run."""
        return [
            one.instance_id
            for one in self.api.instances(cluster, queue)
            if one.state in ("running", "pending")
        ]


@contextmanager
def queue_cloud(state_dir: Path, **more: str) -> Iterator[QueueCloud]:
    """Nothing of it is left afterwards. `more` are other variables of the server."""
    wanted = {f"TRAINYARD_LOCAL_{name}_SECONDS": value for name, value in QUICK.items()} | more
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        local = control.up(state_dir, 0, ROOT / "template.yaml", {"HeartbeatSeconds": "2"})
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    system = System(state_dir.resolve(), local, Client.from_state_dir(state_dir))
    try:
        yield QueueCloud(system)
    finally:
        control.down(state_dir)
    assert node_processes.matching(node_processes.of_cloud(state_dir.resolve())) == []


def queue_spec(name: str, *queues: Json, **more: Any) -> Json:
    """`queues` change what they name of a queue of one on-demand node."""
    subnets = {"subnetIds": ["subnet-0123456789abcdef1"], "instanceTypes": ["c5.xlarge"]}
    return {
        "name": name,
        "backend": "parallelcluster",
        "headNode": {"instanceType": "c5.large", "subnetId": "subnet-0123456789abcdef0"},
        "queues": [{"max": 1, **subnets, **queue} for queue in queues],
        "sharedStorage": [
            {
                "name": "scratch",
                "mountPath": "/fsx",
                "fsx": {"fileSystemId": "fs-0123456789abcdef0"},
            }
        ],
        "environment": {"kind": "existing", "path": "/opt/trainyard/env"},
        **more,
    }

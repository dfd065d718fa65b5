"""The local cloud for demo and benchmarks: up, down, faults, and its nodes' shared filesystem."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError

from demo.leftovers import processes_of
from trainyard_contracts.files import Progress
from trainyard_local import control
from trainyard_sdk.client import Client

REPOSITORY = Path(__file__).resolve().parents[1]
Json = dict[str, Any]
#: What every cluster's spec names; the local cloud has it by any name.
ON_FSX: Json = {
    "network": {
        "subnetIds": ["subnet-0123456789abcdef0"],
        "securityGroupIds": ["sg-0123456789abcdef0"],
    },
    "sharedFilesystem": {
        "dnsName": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
        "mountName": "abcdefgh",
    },
}


@dataclass
class LocalCloud:
    """A local cloud that is up. `local` is its local.json."""

    state_dir: Path
    local: Json
    api: Client
    up_seconds: float

    def fault(
        self, kind: str, cluster: str, *, node: str | None = None, run: str | None = None
    ) -> float:
        """Inject a fault; returns the epoch time just before, so that no time is left out."""
        at = time.time()
        self.api.fault(kind, cluster, node=node, run=run)
        return at

    def aws(self, service: str) -> Any:
        """A boto3 client of the local cloud."""
        return boto3.client(
            service,
            endpoint_url=self.local["endpoint"],
            region_name=self.local["region"],
            aws_access_key_id=self.local["accessKeyId"],
            aws_secret_access_key=self.local["secretAccessKey"],
        )

    def cluster_is_gone(self, name: str) -> bool:
        """Whether SageMaker itself says that there is no such cluster."""
        try:
            self.aws("sagemaker").describe_cluster(ClusterName=name)
        except ClientError as error:
            return error.response["Error"]["Code"] in (
                "ResourceNotFound",
                "ResourceNotFoundException",
            )
        return False

    def last_step(self, run_id: str, number: int) -> int | None:
        """The last step that the attempt's trainer finished, from its file on the filesystem."""
        shared = [*self.state_dir.glob("fsx/*"), *self.state_dir.glob("clusters/*/shared")]
        found = [
            path
            for path in (
                place / f"trainyard/runs/{run_id}/attempts/{number}/progress.json"
                for place in shared
            )
            if path.exists()
        ]
        return Progress.model_validate_json(found[0].read_bytes()).step if found else None

    def node_processes(self) -> dict[int, str]:
        """Processes of nodes (Slurm, agents, jobs) that are alive now."""
        server = {int(self.local["pid"])}
        return {
            pid: command
            for pid, command in processes_of(self.state_dir, "TRAINYARD_NODE").items()
            if pid not in server
        }


@contextmanager
def local_cloud(
    state_dir: Path,
    port: int,
    parameters: Mapping[str, str] | None = None,
    *,
    nodes: str = "processes",
) -> Iterator[LocalCloud]:
    """A fresh local cloud; taken down on every way out, an interrupt included."""
    control.down(state_dir)  # whatever an earlier, killed demo left behind
    started = time.monotonic()
    try:
        local = control.up(
            state_dir=state_dir,
            port=port,
            template=REPOSITORY / "template.yaml",
            parameters=parameters,
            nodes=nodes,
        )
        seconds = time.monotonic() - started
        yield LocalCloud(state_dir, dict(local), Client.from_state_dir(state_dir), seconds)
    finally:
        control.down(state_dir)


def node_of(api: Client, cluster: str, slurm_name: str) -> Mapping[str, Any]:
    """The cluster's node of that Slurm name. Raises LookupError."""
    for node in api.nodes(cluster):
        if node["name"] == slurm_name or node["address"] == slurm_name.removeprefix("ip-").replace(
            "-", "."
        ):
            return node
    raise LookupError(f"cluster {cluster} has no node {slurm_name}")

"""What the agent's tests share: a configuration, events, an attempt, a node, a checkpoint."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from trainyard_agent.host.identifiers import ulid
from trainyard_agent.host.slurm_nodes import SlurmNode
from trainyard_agent.jobs.attempt import Attempt
from trainyard_contracts.events import AttemptStarted, ClusterHeartbeat
from trainyard_contracts.files import AgentConfig

RUN = "run-01j0000000000000000000000a"


def config(directory: Path, **changes: Any) -> AgentConfig:
    """An agent's configuration below `directory`."""
    values: dict[str, Any] = {
        "cluster_name": "c",
        "cluster_arn": "arn:aws:sagemaker:us-east-1:123456789012:cluster/abc",
        "node_name": "ip-127-0-0-1",
        "instance_id": "i-1",
        "role": "controller",
        "address": "127.0.0.1",
        "controller_address": "127.0.0.1",
        "link_port": 5099,
        "key_file": str(directory / "key"),
        "shared_root": str(directory / "shared"),
        "state_dir": str(directory),
        "python": "/usr/bin/python3",
        "library_dir": "/opt/lib",
        "event_bus": "bus",
        "region": "us-east-1",
        "data_bucket": "data",
    }
    return AgentConfig(**(values | changes))


def started(run: str = RUN, **changes: Any) -> AttemptStarted:
    values: dict[str, Any] = {
        "id": ulid(),
        "at": datetime.now(timezone.utc),
        "cluster_name": "c",
        "cluster_arn": "a",
    }
    return AttemptStarted(
        **(values | {"run_id": run, "attempt": 1, "job_id": "1", "nodes": []} | changes)
    )


def heartbeat() -> ClusterHeartbeat:
    return ClusterHeartbeat(
        id=ulid(), at=datetime.now(timezone.utc), cluster_name="c", cluster_arn="a", nodes=[]
    )


def commit(root: Path, step: int, attempt: int = 1, body: bytes = b"weights") -> Path:
    """A whole checkpoint, as a trainer leaves it."""
    directory = root / "checkpoints" / f"step-{step:012d}-attempt-{attempt}"
    (directory / "rank-0").mkdir(parents=True)
    (directory / "rank-0/model.pt").write_bytes(body)
    manifest = {
        "schema": "trainyard.checkpoint.v1",
        "runId": RUN,
        "attempt": attempt,
        "step": step,
        "worldSize": 1,
        "createdAt": "2026-01-01T00:00:00Z",
        "files": [
            {
                "path": "rank-0/model.pt",
                "bytes": len(body),
                "sha256": hashlib.sha256(body).hexdigest(),
            }
        ],
    }
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


def attempt(number: int = 1, state: Any = "running", run: str = RUN, **fields: Any) -> Attempt:
    values = {"nodes": ("ip-1",), "job_id": str(100 + number), **fields}
    return Attempt(run, number, state, Path("/attempts") / str(number), **values)


def slurm_node(name: str, state: str, reason: str = "", *partitions: str) -> SlurmNode:
    return SlurmNode(name, state, "10.0.0.1", 6818, reason, partitions)

"""Jobs of the light trainer on a real Slurm with agents: submitted, followed by their events."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from tests.support.agent import RUN
from tests.support.agent_cluster import AgentCluster
from tests.support.repository import ROOT
from tests.support.waiting import eventually

from trainyard.domain.recipes import batch_script

LIGHT_TRAINER = (ROOT / "tests/support/light_trainer.py").read_text()
#: As in a collective, no rank goes on without the others: a dead peer makes training stand still.
LOCKSTEP = """
def lockstep(step):
    (ATTEMPT_DIR / f"rank-{RANK}").write_text(str(step))
    for rank in range(int(os.environ["SLURM_NTASKS"])):
        other = ATTEMPT_DIR / f"rank-{rank}"
        while not other.exists() or int(other.read_text() or 0) < step:
            time.sleep(0.002)


def main() -> None:"""
TRAINER = LIGHT_TRAINER.replace("def main() -> None:", LOCKSTEP).replace(
    "        value += step\n", "        value += step\n        lockstep(step)\n"
)


#: Steps so long that one counts as missing after 6 s, which no busy machine makes of a training
#: that goes on. With steps of 20 ms it would after 0.4 s.
UNHURRIED = ["--steps", "1000", "--step-seconds", "2", "--every", "1"]


def paced(cluster: AgentCluster, run: str = RUN) -> None:
    """Wait until the agent knows how long an unhurried job's steps take."""
    eventually(
        "three steps are known",
        lambda: len(cluster.sink.of("CheckpointCommitted", runId=run)) >= 3,
        20,
    )


def put_bundle(cluster: AgentCluster, attempt: int = 1, *, run: str = RUN, **changes: Any) -> str:
    """Store a bundle as the control plane does; returns its address."""
    bundle = {
        "runId": run,
        "attempt": attempt,
        "clusterName": "agents",
        "batchScript": batch_script(run, attempt, changes.get("nodes", 2)),
        "nodes": 2,
        "processesPerNode": 1,
        "program": ["train.py"],
        "recipe": "command",
        "arguments": ["--steps", "100000", "--step-seconds", "0.02", "--every", "10"],
        "files": {"train.py": TRAINER},
        "checkpointKeep": 3,
    } | changes
    key = f"data/runs/{run}/attempts/{attempt}/bundle.json"
    cluster.sink.objects[key] = (json.dumps(bundle).encode(), None)
    return f"s3://{key}"


def submit(
    cluster: AgentCluster, attempt: int = 1, *, run: str = RUN, **changes: Any
) -> dict[str, Any]:
    uri = put_bundle(cluster, attempt, run=run, **changes)
    digest = sha256(cluster.sink.objects[uri.removeprefix("s3://")][0]).hexdigest()
    return cluster.agent(
        "submit", "--run", run, "--attempt", str(attempt), "--bundle", uri, "--sha256", digest
    )


def event(cluster: AgentCluster, kind: str, seconds: float = 20, **fields: Any) -> dict[str, Any]:
    return eventually(f"{kind} {fields}", lambda: cluster.sink.of(kind, **fields), seconds)[0]


def training(cluster: AgentCluster, attempt: int = 1, **changes: Any) -> list[str]:
    """Submit, wait for the first committed checkpoint, return the job's nodes, batch host first."""
    assert "jobId" in submit(cluster, attempt, **changes)
    event(cluster, "AttemptStepped", attempt=attempt)
    event(cluster, "CheckpointCommitted", attempt=attempt)
    nodes: list[str] = event(cluster, "AttemptStarted", attempt=attempt)["nodes"]
    return nodes


def node_named(cluster: AgentCluster, name: str) -> Any:
    return next(node for node in cluster.nodes if node.name == name)


def arrival(cluster: AgentCluster, kind: str, **fields: Any) -> float:
    """When the bus got the first such event."""
    return next(
        at
        for k, d, at in cluster.sink.events
        if k == kind and all(d.get(n) == v for n, v in fields.items())
    )

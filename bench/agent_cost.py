"""Measures what the agent costs at rest, on worker and controller: its share of one core, and
memory, as JSON.

    python bench/agent_cost.py [--seconds 60] [--nodes 3]

Brings up a real Slurm with an agent on every node on loopback, lets them settle, then reads /proc
each second. Heartbeats are as rare as in production (each 60 s); the machine's other load does not
count, only the agents' own CPU time does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.agent_cluster import AgentCluster, agent_cluster
from tests.support.waiting import eventually

CPU_LIMIT_PERCENT, MEMORY_LIMIT_MB = 1.0, 60.0


def cpu_seconds(pid: int) -> float:
    """User and system time of the process and of the children (Slurm's commands) it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    line = next(
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )
    return int(line.split()[1]) / 1024


def measure(cluster: AgentCluster, seconds: int) -> dict[str, Any]:
    """Median, highest and mean of the one-second samples of each role."""
    pids = {"controller": [cluster.controller], "worker": cluster.worker_nodes}
    running = {
        role: [node.agent.pid for node in nodes if node.agent] for role, nodes in pids.items()
    }
    shares: dict[str, list[float]] = {role: [] for role in running}
    memory: dict[str, list[float]] = {role: [] for role in running}
    began = {pid: cpu_seconds(pid) for group in running.values() for pid in group}
    start, before = time.monotonic(), dict(began)
    for _ in range(seconds):
        at = time.monotonic()
        time.sleep(1)
        for role, group in running.items():
            for pid in group:
                now = cpu_seconds(pid)
                shares[role].append(100 * (now - before[pid]) / (time.monotonic() - at))
                before[pid] = now
                memory[role].append(resident_mb(pid))
    wall = time.monotonic() - start
    return {
        role: {
            "cpuPercentOfOneCore": round(
                statistics.mean(100 * (before[pid] - began[pid]) / wall for pid in group), 3
            ),
            "cpuPercentMedianSecond": round(statistics.median(shares[role]), 3),
            "residentMbMedian": round(statistics.median(memory[role]), 1),
            "residentMbHighest": round(max(memory[role]), 1),
        }
        for role, group in running.items()
    }


def command_milliseconds(cluster: AgentCluster, times: int = 15) -> float:
    """Median wall time of `trainyard-agent nodes`, interpreter start included."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        cluster.agent("nodes")
        found.append(1000 * (time.perf_counter() - start))
    return round(statistics.median(found), 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--settle", type=float, default=10.0)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        agent_cluster(
            Path(directory) / "c", workers=options.nodes, heartbeatSeconds=60.0
        ) as cluster,
    ):
        eventually("ClusterReady", lambda: cluster.sink.of("ClusterReady"), 60)
        time.sleep(options.settle)
        roles = measure(cluster, options.seconds)
        command = command_milliseconds(cluster)
    within = all(
        role["cpuPercentOfOneCore"] <= CPU_LIMIT_PERCENT
        and role["residentMbHighest"] <= MEMORY_LIMIT_MB
        for role in roles.values()
    )
    print(
        json.dumps(
            {
                "seconds": options.seconds,
                "nodes": options.nodes,
                **roles,
                "commandMsMedian": command,
                "withinLimits": within,
            },
            indent=1,
        )
    )
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())

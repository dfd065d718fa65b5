"""How fast POST /v1/runs answers, warm, through the gateway, signed: `python -m bench.api`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.figures import machine, percentile, rounded
from demo.cloud import ON_FSX, REPOSITORY, LocalCloud, local_cloud

TARGET_P50_SECONDS, TARGET_P99_SECONDS = 0.025, 0.080
ENDED = ("Succeeded", "Failed", "Cancelled")


def measure(
    cloud: LocalCloud, cluster: str, samples: int, *, warm_up: int = 5, deadline: float
) -> dict[str, Any]:
    """Submit runs one after another onto `cluster`.

    Each is cancelled and over before the next, so that only one request runs.
    """
    seconds = []
    for number in range(warm_up + samples):
        if time.monotonic() > deadline:
            break
        started = time.perf_counter()
        run = cloud.api.submit_run(_spec(cluster, number))
        elapsed = time.perf_counter() - started
        if number >= warm_up:
            seconds.append(elapsed)
        cloud.api.cancel_run(run["id"])
        _until_over(cloud, run["id"], deadline)
    return {
        "samples": len(seconds),
        "p50Seconds": rounded(percentile(seconds, 50), 4),
        "p99Seconds": rounded(percentile(seconds, 99), 4),
        "targetP50Seconds": TARGET_P50_SECONDS,
        "targetP99Seconds": TARGET_P99_SECONDS,
        "seconds": [round(value, 4) for value in seconds],
    }


def _spec(cluster: str, number: int) -> dict[str, Any]:
    return {
        "name": f"latency-{number}",
        "cluster": {"name": cluster},
        "job": {"nodes": 1, "module": "trainyard_trainers.ddp", "arguments": ["--steps", "1"]},
        "export": {"enabled": False},
    }


def _until_over(cloud: LocalCloud, run_id: str, deadline: float) -> None:
    while cloud.api.run(run_id)["status"] not in ENDED and time.monotonic() < deadline:
        time.sleep(0.2)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.api", description=__doc__)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--port", type=int, default=4783)
    parser.add_argument("--state-dir", type=Path, default=REPOSITORY / "build/bench/api")
    parser.add_argument("--timeout-seconds", type=float, default=300)
    arguments = parser.parse_args(argv)
    with local_cloud(arguments.state_dir, arguments.port) as cloud:
        deadline = time.monotonic() + arguments.timeout_seconds
        name = cloud.api.create_cluster(_cluster())["name"]
        while cloud.api.cluster(name)["status"] != "Ready":  # nodes that boot would be measured too
            if time.monotonic() > deadline:
                print("the cluster was not ready in time", file=sys.stderr)
                return 1
            time.sleep(0.5)
        found = measure(cloud, name, arguments.samples, deadline=deadline)
    print(json.dumps(found | {"machine": machine()}, indent=2))
    return 0


def _cluster() -> dict[str, Any]:
    groups = [
        {"name": "controller", "role": "controller", "instanceType": "ml.c5.large", "count": 1},
        {"name": "workers", "role": "worker", "instanceType": "ml.c5.xlarge", "count": 1},
    ]
    return {
        "name": "latency",
        "instanceGroups": groups,
        **ON_FSX,
        "environment": {"kind": "existing"},
    }


if __name__ == "__main__":
    sys.exit(main())

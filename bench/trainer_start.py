"""Measures the time from the launch of a job to its first step: the trainer's share of a recovery.

    python bench/trainer_start.py [--nodes 2] [--repeat 5]

Starts the real launcher once for each node on loopback, without Slurm, and prints one JSON line a
repetition and the median.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def start(attempt_dir: Path, nodes: int, attempt: int) -> float:
    """Run one attempt of three steps; returns seconds from launch to the end of its first step."""
    attempt_dir.mkdir(parents=True)
    job = {
        "runId": "bench",
        "attempt": attempt,
        "program": ["-m", "trainyard_trainers.ddp"],
        "arguments": ["--steps", "3"],
        "processesPerNode": 1,
    }
    (attempt_dir / "job.json").write_text(json.dumps(job))
    (attempt_dir / "hosts").write_text("".join(f"node-{rank} 127.0.0.1\n" for rank in range(nodes)))
    began = time.time()
    processes = []
    for rank in range(nodes):
        slurm = {
            "SLURM_PROCID": str(rank),
            "SLURM_NNODES": str(nodes),
            "SLURM_JOB_ID": str(os.getpid()),
        }
        place = {"SLURM_JOB_NODELIST": f"node-[0-{nodes - 1}]", "SLURMD_NODENAME": f"node-{rank}"}
        command = [sys.executable, "-m", "trainyard_trainers.launch", str(attempt_dir)]
        processes.append(
            subprocess.Popen(
                command, env={**os.environ, **slurm, **place}, stdout=subprocess.DEVNULL
            )
        )
    codes = [process.wait(120) for process in processes]
    if any(codes):
        raise SystemExit(f"the job failed with exit codes {codes}")
    return float(json.loads((attempt_dir / "progress.json").read_text())["firstStepAt"]) - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    seconds = []
    for repetition in range(arguments.repeat):
        with tempfile.TemporaryDirectory() as directory:
            seconds.append(start(Path(directory) / "run" / "attempts" / "1", arguments.nodes, 1))
        print(
            json.dumps(
                {"repetition": repetition + 1, "launchToFirstStepSeconds": round(seconds[-1], 2)}
            ),
            flush=True,
        )
    print(
        json.dumps(
            {
                "nodes": arguments.nodes,
                "medianSeconds": round(statistics.median(seconds), 2),
                "cores": os.cpu_count(),
            }
        )
    )


if __name__ == "__main__":
    main()

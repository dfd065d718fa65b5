"""Samples a second of the data-parallel job against the tutorial's: `python -m bench.ddp_speed`.

    python -m bench.ddp_speed [--rounds 3]

Each round runs, one after another, the plain program (bench/plain_ddp.py) with 8 ranks on 2 nodes
and with 2 ranks, the trainer with 8 ranks on 2 nodes, and the reduction alone, by shared memory and
by gloo: no trainer can be faster than that. Nodes are launchers on loopback. Writes
build/bench/ddp_speed.json and fails when the medians miss the goals.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import torch.distributed as dist
from bench.figures import machine, median, rounded

from trainyard_trainers.ddp import allreduce

REPOSITORY = Path(__file__).resolve().parents[1]
OUTPUT = REPOSITORY / "build/bench/ddp_speed.json"
BATCH, WIDTH, RANKS, NODES = 32, 26, 8, 2
WARM_UP = 50
GOAL_SAME_RANKS, GOAL_TWO_RANKS = 10.0, 3.0
ENVIRONMENT = {
    "GLOO_SOCKET_IFNAME": "lo",
    "OMP_NUM_THREADS": "1",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "PYTHONWARNINGS": "ignore",
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def wait(processes: list[subprocess.Popen[str]]) -> list[str]:
    """What each wrote; all must end well."""
    outputs = [process.communicate(timeout=600)[0] for process in processes]
    for process, output in zip(processes, outputs, strict=True):
        if process.returncode:
            raise SystemExit(f"{process.args!r} ended with {process.returncode}:\n{output[-3000:]}")
    return outputs


def start(command: list[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        env={**os.environ, **ENVIRONMENT, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def plain(ranks: int, nodes: int, steps: int) -> float:
    """Samples a second of the tutorial's program under torchrun."""
    place = [
        f"--nnodes={nodes}",
        f"--nproc-per-node={ranks // nodes}",
        "--master-addr=127.0.0.1",
        f"--master-port={free_port()}",
    ]
    program = [
        str(REPOSITORY / "bench/plain_ddp.py"),
        "--steps",
        str(steps),
        "--warm-up",
        str(WARM_UP),
    ]
    torchrun = [sys.executable, "-m", "torch.distributed.run", *place]
    outputs = wait([start([*torchrun, f"--node-rank={node}", *program]) for node in range(nodes)])
    told = next(
        line for line in "".join(outputs).splitlines() if line.startswith('{"samplesPerSecond"')
    )
    return float(json.loads(told)["samplesPerSecond"])


def ours(ranks: int, nodes: int, steps: int) -> float:
    """Samples a second of the trainer under Trainyard's launcher, by its steps.jsonl."""
    with tempfile.TemporaryDirectory() as directory:
        attempt = Path(directory) / "run" / "attempts" / "1"
        attempt.mkdir(parents=True)
        arguments = ["--steps", str(steps), "--noise", "0"]
        job = {
            "runId": "bench",
            "attempt": 1,
            "program": ["-m", "trainyard_trainers.ddp"],
            "arguments": arguments,
        }
        (attempt / "job.json").write_text(json.dumps({**job, "processesPerNode": ranks // nodes}))
        (attempt / "hosts").write_text("".join(f"node-{node} 127.0.0.1\n" for node in range(nodes)))
        everywhere = {
            "SLURM_NNODES": str(nodes),
            "SLURM_JOB_ID": str(time.time_ns()),
            "SLURM_JOB_NODELIST": f"node-[0-{nodes - 1}]",
        }
        command = [sys.executable, "-m", "trainyard_trainers.launch", str(attempt)]
        wait(
            [
                start(command, SLURM_PROCID=str(node), SLURMD_NODENAME=f"node-{node}", **everywhere)
                for node in range(nodes)
            ]
        )
        lines = [json.loads(line) for line in (attempt / "steps.jsonl").read_text().splitlines()]
    first, last = lines[WARM_UP], lines[-2]  # the last one waits for the last checkpoint
    return float((last["step"] - first["step"]) * BATCH * ranks / (last["at"] - first["at"]))


def reduction(ranks: int, nodes: int, times: int, kind: str) -> float:
    """Microseconds of one reduction of the job's 26 numbers, back to back, in forked processes."""
    reader, writer = os.pipe()
    port = str(free_port())
    pids = [
        fork(partial(time_reduction, rank, ranks, nodes, port, times, kind, writer))
        for rank in range(ranks)
    ]
    os.close(writer)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    with os.fdopen(reader) as stream:
        text = stream.read()
    if any(codes):
        raise SystemExit(f"the reduction alone ended with {codes}")
    return float(text)


def fork(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def time_reduction(
    rank: int, ranks: int, nodes: int, port: str, times: int, kind: str, writer: int
) -> None:
    place = {
        "RANK": rank,
        "WORLD_SIZE": ranks,
        "GROUP_RANK": rank // (ranks // nodes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    os.environ.update({**ENVIRONMENT, **{name: str(value) for name, value in place.items()}})
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if kind == "gloo":
        once: Callable[[], object] = partial(dist.all_reduce, torch.zeros(WIDTH))
    else:
        connected = allreduce.connect(WIDTH)
        if not isinstance(connected, allreduce.Shared):
            raise SystemExit("no shared memory here")
        once = connected.add_up
    for _ in range(WARM_UP):
        once()
    began = time.perf_counter()
    for _ in range(times):
        once()
    if rank == 0:
        os.write(writer, str((time.perf_counter() - began) / times * 1e6).encode())
    dist.barrier()
    dist.destroy_process_group()


def one_round(options: argparse.Namespace) -> dict[str, float]:
    return {
        "plain8": plain(RANKS, NODES, options.plain_steps),
        "ours8": ours(RANKS, NODES, options.steps),
        "plain2": plain(2, 1, options.plain_steps),
        "ours2": ours(2, 1, options.steps),
        "reductionMicroseconds": reduction(RANKS, NODES, options.steps, "shared"),
        "glooMicroseconds": reduction(RANKS, NODES, options.plain_steps, "gloo"),
        "loadAverage": os.getloadavg()[0],
    }


def verdict(rounds: list[dict[str, float]]) -> dict[str, Any]:
    """Medians over the rounds, their ratios, and how near the job comes to the reduction alone."""
    middle = {name: median([found[name] for found in rounds]) or 0.0 for name in rounds[0]}
    limit = RANKS * BATCH / middle["reductionMicroseconds"] * 1e6
    ratios = {
        "toPlain8": middle["ours8"] / middle["plain8"],
        "toPlain2": middle["ours8"] / middle["plain2"],
    }
    return {
        "samplesPerSecond": {
            name: rounded(middle[name], 0) for name in ("plain8", "ours8", "plain2", "ours2")
        },
        "stepMicroseconds": {
            "plain8": rounded(RANKS * BATCH / middle["plain8"] * 1e6, 0),
            "ours8": rounded(RANKS * BATCH / middle["ours8"] * 1e6, 0),
        },
        "reductionMicroseconds": {
            "shared": rounded(middle["reductionMicroseconds"], 1),
            "gloo": rounded(middle["glooMicroseconds"], 1),
        },
        "shareOfReductionLimit": rounded(middle["ours8"] / limit),
        "ratios": {name: rounded(ratio, 2) for name, ratio in ratios.items()},
        "goals": {"toPlain8": GOAL_SAME_RANKS, "toPlain2": GOAL_TWO_RANKS},
        "reached": ratios["toPlain8"] >= GOAL_SAME_RANKS and ratios["toPlain2"] >= GOAL_TWO_RANKS,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--steps", type=int, default=4000, help="of the trainer, and reductions alone"
    )
    parser.add_argument("--plain-steps", type=int, default=300)
    options = parser.parse_args()
    rounds = []
    for number in range(options.rounds):
        rounds.append(one_round(options))
        print(
            json.dumps(
                {
                    "round": number + 1,
                    **{name: rounded(value, 1) for name, value in rounds[-1].items()},
                }
            ),
            flush=True,
        )
    found = verdict(rounds)
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(
        json.dumps({"machine": machine(), **found, "rounds": rounds}, indent=1) + "\n"
    )
    print(json.dumps(found, indent=1))
    print(
        f"8 ranks on 2 nodes: {found['ratios']['toPlain8']} times the plain program with 8 "
        f"ranks (goal {GOAL_SAME_RANKS:.0f}), "
        f"{found['ratios']['toPlain2']} times it with 2 (goal {GOAL_TWO_RANKS:.0f}): "
        f"{'reached' if found['reached'] else 'NOT reached'}"
    )
    return 0 if found["reached"] else 1


if __name__ == "__main__":
    sys.exit(main())

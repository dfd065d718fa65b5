"""What the ranks of the reduction's tests do: add up known numbers, die, or run the plain program, in processes of a placement of nodes."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from bench import plain_ddp
from tests.support.forked_jobs import FORKSERVER, free_port, run_rank

from trainyard_trainers import allreduce

WIDTH = 26


class Ranks:
    """Processes of `nodes`: for every rank the name of its node, in the order of ranks."""

    def __init__(self, directory: Path, nodes: Sequence[str], target: Callable[..., int], *arguments: Any) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        everywhere = {
            "WORLD_SIZE": str(len(nodes)),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "GLOO_SOCKET_IFNAME": "lo",
        }
        self.processes = []
        for rank, node in enumerate(nodes):
            environment = {**everywhere, "RANK": str(rank), "GROUP_RANK": node, "OMP_NUM_THREADS": "1"}
            log = str(directory / f"rank-{rank}.log")
            process = FORKSERVER.Process(target=run_rank, args=(target, (str(directory), *arguments), environment, log))
            process.start()
            self.processes.append(process)

    def wait(self, seconds: float = 60) -> list[int | None]:
        """Exit status of every rank; None: it still ran after so long, and was killed."""
        deadline = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
        codes = [process.exitcode for process in self.processes]
        for process in self.processes:
            process.kill()
            process.join()
        return codes

    def told(self, rank: int) -> dict[str, Any]:
        return dict(json.loads((self.directory / f"rank-{rank}.json").read_text()))


def numbers_of(rank: int, step: int) -> list[float]:
    """Of many magnitudes and both signs, so that the order of the additions shows in the sum."""
    chance = random.Random(f"{rank}/{step}")
    return [chance.uniform(-1, 1) * 10.0 ** chance.randrange(-6, 7) for _ in range(WIDTH)]


def _report(directory: str, document: dict[str, Any]) -> None:
    (Path(directory) / f"rank-{dist.get_rank()}.json").write_text(json.dumps(document))


def _wrong(total: Sequence[float], step: int) -> list[str]:
    """Where the total is not the sum of all rows but for what float32 may lose."""
    rows = [torch.tensor(numbers_of(rank, step)).tolist() for rank in range(dist.get_world_size())]
    lost = [sum(map(abs, column)) * 2.0**-21 for column in zip(*rows, strict=True)]
    sums = [math.fsum(column) for column in zip(*rows, strict=True)]
    return [f"step {step}: {found} is not {due}" for found, due, room in zip(total, sums, lost, strict=True) if abs(found - due) > room]


def add_up(directory: str, steps: int) -> int:
    """Add up known numbers at every step, some ranks later than others, and tell a digest of all totals and which of them were wrong."""
    dist.init_process_group("gloo")
    reduction = allreduce.connect(WIDTH)
    digest, wrong, chance = hashlib.sha256(), [], random.Random(dist.get_rank())
    for step in range(steps):
        reduction.mine.tensor.copy_(torch.tensor(numbers_of(dist.get_rank(), step)))
        if chance.random() < 0.02:
            time.sleep(0.003)  # the order in which ranks arrive is the point
        reduction.add_up()
        digest.update(bytes(reduction.total.bytes))
        if step % 10 == 0:
            wrong += _wrong(list(reduction.total.numbers), step)
    reduction.close()
    _report(directory, {"kind": type(reduction).__name__, "digest": digest.hexdigest(), "wrong": wrong[:3]})
    dist.barrier()
    dist.destroy_process_group()
    return 0


def lose_a_rank(directory: str, lost: int) -> int:
    """One rank kills itself in the middle; the others tell the error they get."""
    dist.init_process_group("gloo")
    reduction = allreduce.connect(WIDTH)
    rank = dist.get_rank()
    try:
        for step in itertools.count():
            if rank == lost and step == 20:
                os.kill(os.getpid(), signal.SIGKILL)
            reduction.add_up()
    except ConnectionError as error:
        _report(directory, {"error": f"{type(error).__name__}: {error}"})
    os._exit(1)  # as a rank that failed does: its connections close, and the process group with them


def plain(directory: str, steps: int, seed: int) -> int:
    """The tutorial's program."""
    plain_ddp.main(["--steps", str(steps), "--seed", str(seed), "--weights", f"{directory}/plain.pt"])
    return 0

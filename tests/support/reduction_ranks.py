"""What the ranks of the reduction's tests do: add up known numbers, die, or run a plain program."""

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
from tests.support.forked_jobs import FORKSERVER, run_rank
from tests.support.ports import free_port

from trainyard_trainers.ddp import allreduce
from trainyard_trainers.parallel import node_memory, shared_adamw
from trainyard_trainers.parallel.backend import OptimizerConfig

WIDTH = 26


class Ranks:
    """Processes of `nodes`: for every rank the name of its node, in the order of ranks."""

    def __init__(
        self, directory: Path, nodes: Sequence[str], target: Callable[..., int], *arguments: Any
    ) -> None:
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
            environment = {
                **everywhere,
                "RANK": str(rank),
                "GROUP_RANK": node,
                "OMP_NUM_THREADS": "1",
            }
            log = str(directory / f"rank-{rank}.log")
            process = FORKSERVER.Process(
                target=run_rank, args=(target, (str(directory), *arguments), environment, log)
            )
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
    return [
        f"step {step}: {found} is not {due}"
        for found, due, room in zip(total, sums, lost, strict=True)
        if abs(found - due) > room
    ]


def add_up(directory: str, steps: int) -> int:
    """Add up known numbers at every step, some ranks later than others.

    Tells a digest of all totals, and which of them were wrong.
    """
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
    _report(
        directory,
        {"kind": type(reduction).__name__, "digest": digest.hexdigest(), "wrong": wrong[:3]},
    )
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
    os._exit(
        1
    )  # as a rank that failed does: its connections close, and the process group with them


def update(
    directory: str, shapes: Sequence[Sequence[int]], steps: int, clip: float, blind: int = -1
) -> int:
    """Update weights of these shapes, the first one sparsely, with known gradients.

    A step has two micro-batches. Rank `blind` may not open what other processes have.
    Tells digests, and the largest error beside torch's AdamW.
    """
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == blind:
        node_memory.attach = _refused
    options = OptimizerConfig(clip=clip)
    weights = [torch.nn.Parameter(torch.empty(*shape)) for shape in shapes]
    reference = Reference(shapes, options)
    shared = shared_adamw.connect(weights, options)
    digests, errors, early = [], [0.0], False
    for weight, first in zip(weights, reference.weights, strict=True):
        weight.data.copy_(first.data)
    for step in range(steps if shared else 0):
        assert shared is not None
        chance = random.Random(f"late/{rank}/{step}")
        before = _digest(weights, shared.states)
        for micro in (0, 1):
            time.sleep(0.01 * chance.random())
            _backward(weights, _gradients(shapes, rank, 2 * step + micro))
        early |= _digest(weights, shared.states) != before  # another rank was ahead
        norm = shared.update(0.01, clip)
        due = reference.update(step)
        errors += [abs(norm - due) / due, *reference.errors(weights)]
        digests.append(_digest(weights, shared.states))
    _report(
        directory,
        {"shared": shared is not None, "digests": digests, "error": max(errors), "early": early},
    )
    dist.barrier()
    dist.destroy_process_group()
    return 0


class Reference:
    """torch's AdamW on the mean of all ranks' gradients."""

    def __init__(self, shapes: Sequence[Sequence[int]], options: OptimizerConfig) -> None:
        self._shapes, self._clip = shapes, options.clip
        self.weights = [torch.nn.Parameter(first) for first in _gradients(shapes, 99, 0)]
        rates = {
            "lr": 0.01,
            "betas": (options.beta1, options.beta2),
            "eps": options.epsilon,
            "weight_decay": options.weight_decay,
        }
        self._optimizer = torch.optim.AdamW(self.weights, **rates)  # type: ignore[arg-type]

    def update(self, step: int) -> float:
        """Take this step; the norm before clipping."""
        for number, parameter in enumerate(self.weights):
            of_all = [
                _gradients(self._shapes, member, 2 * step + micro)[number]
                for member in range(dist.get_world_size())
                for micro in (0, 1)
            ]
            parameter.grad = torch.stack(of_all).sum(0) / dist.get_world_size()
        norm = float(torch.nn.utils.clip_grad_norm_(self.weights, self._clip or math.inf))
        self._optimizer.step()
        return norm

    def errors(self, weights: Sequence[torch.Tensor]) -> list[float]:
        """How far each weight is off, at its worst element."""
        return [
            float((one - other).abs().max())
            for one, other in zip(weights, self.weights, strict=True)
        ]


def _backward(weights: Sequence[torch.nn.Parameter], gradients: Sequence[torch.Tensor]) -> None:
    """Leave these gradients, the first one by the rows that an embedding looks up."""
    rows = (
        torch.nn.functional.embedding(torch.arange(len(weights[0])), weights[0], sparse=True)
        if weights[0].dim() == 2
        else weights[0]
    )
    torch.stack(
        [
            (weight * gradient).sum()
            for weight, gradient in zip([rows, *weights[1:]], gradients, strict=True)
        ]
    ).sum().backward()


def _digest(weights: Sequence[torch.Tensor], states: Sequence[dict[str, torch.Tensor]]) -> str:
    held = [*weights, *(tensor for state in states for tensor in state.values())]
    return hashlib.sha256(
        b"".join(tensor.detach().numpy().tobytes() for tensor in held)
    ).hexdigest()


def _refused(_offer: dict[str, Any], _size: int) -> Any:
    raise PermissionError("not allowed to open it")


def _gradients(shapes: Sequence[Sequence[int]], rank: int, step: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 * rank + step)
    return [torch.randn(*shape, generator=generator) for shape in shapes]


def plain(directory: str, steps: int, seed: int) -> int:
    """The tutorial's program."""
    plain_ddp.main(
        ["--steps", str(steps), "--seed", str(seed), "--weights", f"{directory}/plain.pt"]
    )
    return 0

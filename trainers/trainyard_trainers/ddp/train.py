"""The classic data-parallel job on CPU: a linear layer 20 to 1 on 2,048 samples, batches of 32 a
rank, SGD, at the speed of the machine.

The samples, their order, the gradient averaged over all ranks at every step and the weights are
those of the tutorial's program (DistributedSampler, DistributedDataParallel). With 21 weights that
program's time goes into its loader, autograd and collectives: here batches are cut for many steps
at once, the gradient of the linear layer is written out, and it travels with the loop's votes in
one reduction through shared memory (allreduce.py).

Resume is exact. Weights lie in the checkpoint once, random state once for every rank, the data
position as one number, so a run that was killed and resumed, on the same hosts or others, ends with
the very bits of one that was not.

    torchrun --nproc-per-node 2 -m trainyard_trainers.ddp --steps 200
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainyard_job.checkpoints.checkpoint import Saved

from .. import loop
from ..checkpoints.checkpointer import Files, load, load_own, rank_file
from ..common import config, seeds
from ..common.agreement import LOSS, SLOTS
from ..common.bounds import NOT_NEGATIVE, PART, POSITIVE
from ..common.meaning import Meaning
from ..loop import StepResult, Turn
from ..loop.data import Stream, check_batch
from . import allreduce

SAMPLES, FEATURES, BATCH = 2048, 20, 32
#: Batches cut and noise drawn at once: few enough that a block stays in the processor's cache.
BLOCK_STEPS = 64


@dataclass(frozen=True)
class DdpConfig(loop.LoopConfig):
    """How the linear layer is trained."""

    learning_rate: Annotated[float, POSITIVE, Meaning("as in torch.optim.SGD")] = 0.01
    momentum: Annotated[float, PART, Meaning("as in torch.optim.SGD")] = 0.9
    noise: Annotated[
        float,
        NOT_NEGATIVE,
        Meaning("standard deviation of what each rank adds to its batches' inputs"),
    ] = 0.01


def make_samples(seed: int) -> tuple[Tensor, Tensor]:
    """Inputs (2048, 20) and targets (2048, 1) of a noisy linear rule, the same on every rank."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(SAMPLES, FEATURES, generator=generator)
    rule = torch.randn(FEATURES, 1, generator=generator)
    return inputs, inputs @ rule + 0.1 * torch.randn(SAMPLES, 1, generator=generator)


class Batches:
    """This rank's batches, made ready a block of steps at a time.

    A block's noise comes from the random state before it, so a checkpoint in the middle of a block
    keeps that state and the block's place.
    """

    def __init__(self, seed: int, noise: float, rank: int, world_size: int) -> None:
        inputs, targets = make_samples(seed)
        self._inputs, self._targets = (
            torch.cat([inputs, torch.ones(SAMPLES, 1)], dim=1),
            targets[:, 0],
        )
        self._stream = Stream(SAMPLES, seed)
        self._noise, self._rank, self._world_size = noise, rank, world_size
        self._ready: Sequence[tuple[Tensor, Tensor, Tensor]] = ()
        self._used = 0
        self._began, self._random = 0, seeds.random_state()

    def next(self) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs (32, 21), of which the last column is 1 for the bias; the same transposed; and
        targets (32,).
        """
        if self._used == len(self._ready):
            self._cut()
        self._used += 1
        return self._ready[self._used - 1]

    def _cut(self) -> None:
        self._began, self._random, self._used = self._stream.position, seeds.random_state(), 0
        chosen = self._stream.share(BLOCK_STEPS * BATCH, self._rank, self._world_size)
        inputs = self._inputs[chosen]
        if self._noise:
            inputs[:, :FEATURES] += self._noise * torch.randn(len(chosen), FEATURES)
        blocks = inputs.view(BLOCK_STEPS, BATCH, FEATURES + 1)
        targets = self._targets[chosen].view(BLOCK_STEPS, BATCH)
        self._ready = list(
            zip(blocks.unbind(), blocks.transpose(1, 2).unbind(), targets.unbind(), strict=True)
        )

    def state(self) -> dict[str, object]:
        """`position`: samples that all ranks have taken; `block`: where the present block began,
        with the random state there.
        """
        position = self._began + self._used * BATCH * self._world_size
        return {
            "position": position,
            "seed": self._stream.seed,
            "block": self._began,
            "random": self._random,
        }

    def restore(self, state: dict[str, Any], *, same_ranks: bool) -> None:
        """Go on at the position; with as many ranks as wrote the state, in the middle of the same
        block.
        """
        self._ready, self._used = (), 0
        self._began = state["block"] if same_ranks else state["position"]
        self._stream.restore({**state, "position": self._began})
        for _ in range((state["position"] - self._began) // (BATCH * self._world_size)):
            self.next()


class Ddp:
    """Model, optimizer and data of one rank."""

    def __init__(self, settings: DdpConfig) -> None:
        self.settings = settings
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        check_batch("batch", BATCH, self.world_size, SAMPLES)
        torch.manual_seed(settings.seed)
        layer = nn.Linear(FEATURES, 1)
        self.weights = torch.cat([layer.weight.detach()[0], layer.bias.detach()])
        self.velocity = torch.zeros_like(self.weights)
        self.errors = torch.zeros(BATCH)
        seeds.seed_rank(settings.seed, self.rank)  # from here on every rank draws its own noise
        self.batches = Batches(settings.seed, settings.noise, self.rank, self.world_size)
        self.reduction = allreduce.connect(len(self.weights) + SLOTS)
        self._gradient = self.reduction.mine.tensor[: len(self.weights)]
        self._loss = self.reduction.mine.tensor[len(self.weights) + LOSS]
        self._gradient_sum = self.reduction.total.tensor[: len(self.weights)]

    def train_step(self, turn: Turn) -> StepResult:
        """Mean squared error of `inputs @ weights`, whose gradient is 2 / 32 * inputs.T @ errors;
        SGD with momentum as in torch.
        """
        inputs, transposed, targets = self.batches.next()
        torch.addmv(targets, inputs, self.weights, beta=-1, out=self.errors)
        torch.mv(transposed, self.errors, out=self._gradient)
        torch.dot(self.errors, self.errors, out=self._loss)
        loss = self._add_up(turn)
        turn.before_update()
        self.velocity.mul_(self.settings.momentum).add_(
            self._gradient_sum, alpha=2 / (BATCH * self.world_size)
        )
        self.weights.add_(self.velocity, alpha=-self.settings.learning_rate)
        return StepResult(loss, BATCH)

    def _add_up(self, turn: Turn) -> float:
        """Gradient, squared errors and votes of all ranks in one reduction; returns this rank's own
        loss.
        """
        at = FEATURES + 1
        mine, total = self.reduction.mine.numbers, self.reduction.total.numbers
        for slot in range(LOSS + 1, SLOTS):
            mine[at + slot] = turn.votes[slot]
        self.reduction.add_up()
        sums = list(total[at:])
        sums[LOSS] /= BATCH
        turn.sums = sums
        return mine[at + LOSS] / BATCH

    def _model(self) -> dict[str, Tensor]:
        """Names and shapes of nn.Linear(20, 1)."""
        return {"weight": self.weights[None, :FEATURES], "bias": self.weights[FEATURES:]}

    def files(self) -> Files:
        files: dict[str, object] = {rank_file(self.rank): self.batches.state()}
        if self.rank == 0:
            files["model.pt"] = self._model()
            files["optimizer.pt"] = {"velocity": self.velocity}
        return files

    def restore(self, saved: Saved) -> None:
        model = load(saved, "model.pt")
        self.weights.copy_(torch.cat([model["weight"][0], model["bias"]]))
        self.velocity.copy_(load(saved, "optimizer.pt")["velocity"])
        own = load_own(saved, self.settings.seed)
        self.batches.restore(own, same_ranks=saved.world_size == self.world_size)

    def final_files(self) -> Files:
        return {"model.pt": self._model()} if self.rank == 0 else {}


def main(argv: list[str] | None = None) -> int:
    """Entry of `python -m trainyard_trainers.ddp` under torchrun."""
    settings = config.parse(DdpConfig, argv, prog="trainyard_trainers.ddp")
    return loop.main(lambda: Ddp(settings), settings)

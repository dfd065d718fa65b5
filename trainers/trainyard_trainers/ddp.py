"""The classic data-parallel job on CPU: a linear layer 20 to 1 on 2,048 samples, batches of 32 a rank, SGD, gloo.

Resume is exact. Model and optimizer lie in the checkpoint once, random state once for every rank, the data position as one number, so a
run that was killed and resumed, on the same hosts or others, ends with the very bits of one that was not.

    torchrun --nproc-per-node 2 -m trainyard_trainers.ddp --steps 200
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from . import config, loop, seeds
from .checkpoint import Saved
from .checkpointer import Files, load, rank_file
from .data import Stream, check_batch
from .loop import StepResult, Turn

SAMPLES, FEATURES, BATCH = 2048, 20, 32


@dataclass(frozen=True)
class DdpConfig(loop.LoopConfig):
    """The tutorial's job. `noise`: standard deviation of what is added to each batch's inputs."""

    learning_rate: float = 0.01
    momentum: float = 0.9
    noise: float = 0.01


def make_samples(seed: int) -> tuple[Tensor, Tensor]:
    """Inputs (2048, 20) and targets (2048, 1) of a noisy linear rule, the same on every rank."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(SAMPLES, FEATURES, generator=generator)
    rule = torch.randn(FEATURES, 1, generator=generator)
    return inputs, inputs @ rule + 0.1 * torch.randn(SAMPLES, 1, generator=generator)


class Ddp:
    """Model, optimizer and data of one rank."""

    def __init__(self, settings: DdpConfig) -> None:
        self.settings = settings
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        check_batch("batch", BATCH, self.world_size, SAMPLES)
        self.inputs, self.targets = make_samples(settings.seed)
        self.stream = Stream(SAMPLES, settings.seed)
        torch.manual_seed(settings.seed)
        self.model = nn.Linear(FEATURES, 1)
        seeds.seed_rank(settings.seed, self.rank)  # from here on every rank draws its own noise
        self.parallel = DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=settings.learning_rate, momentum=settings.momentum)

    def train_step(self, turn: Turn) -> StepResult:
        batch = self.stream.share(BATCH, self.rank, self.world_size)
        inputs = self.inputs[batch] + self.settings.noise * torch.randn(BATCH, FEATURES)
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.parallel(inputs), self.targets[batch])
        loss.backward()  # type: ignore[no-untyped-call]  # DDP averages the gradients here
        turn.before_update()
        self.optimizer.step()
        return StepResult(loss.detach(), BATCH)

    def files(self) -> Files:
        files: dict[str, object] = {rank_file(self.rank): {"position": self.stream.position, "random": seeds.random_state()}}
        if self.rank == 0:
            files["model.pt"] = self.model.state_dict()
            files["optimizer.pt"] = self.optimizer.state_dict()
        return files

    def restore(self, saved: Saved) -> None:
        self.model.load_state_dict(load(saved, "model.pt"))
        self.optimizer.load_state_dict(load(saved, "optimizer.pt"))
        same = saved.world_size == self.world_size
        own = load(saved, rank_file(self.rank if same else 0))
        self.stream.position = own["position"]
        if same:
            seeds.restore_random_state(own["random"])
        else:
            seeds.seed_rank(self.settings.seed + saved.step, self.rank)
            if self.rank == 0:
                print(f"trainyard: {saved.world_size} ranks wrote this checkpoint, {self.world_size} resume it", file=sys.stderr)

    def final_files(self) -> Files:
        return {"model.pt": self.model.state_dict()} if self.rank == 0 else {}


def main(argv: list[str] | None = None) -> int:
    """Entry of `python -m trainyard_trainers.ddp` under torchrun."""
    settings = config.parse(DdpConfig, argv, prog="trainyard_trainers.ddp")
    return loop.main(lambda: Ddp(settings), settings)


if __name__ == "__main__":
    sys.exit(main())

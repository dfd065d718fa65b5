"""A smallest task of the shared loop that has momentum, noise, data in order and ranks' files."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from trainyard_job.checkpoints.checkpoint import Saved
from trainyard_trainers import loop
from trainyard_trainers.checkpoints.checkpointer import Files, load, rank_file
from trainyard_trainers.common import seeds
from trainyard_trainers.loop import LoopConfig, StepResult, Turn
from trainyard_trainers.loop.data import Stream

SAMPLES, BATCH = 60, 4


class SmallTask:
    """Fits a line. The loss of `bad_step` (its gradient if negative) is NaN; `hang_step` hangs."""

    def __init__(
        self, config: LoopConfig, bad_step: int | None, hang_step: int | None, weights: int
    ) -> None:
        self.bad_step, self.hang_step, self.step = bad_step, hang_step, 0
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(config.seed)
        self.model = nn.Linear(weights, 1)
        self.inputs = torch.randn(SAMPLES, weights)
        seeds.seed_rank(config.seed, self.rank)
        self.parallel = nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1 / weights, momentum=0.9)
        self.stream = Stream(SAMPLES, config.seed)

    def train_step(self, turn: Turn) -> StepResult:
        self.step += 1
        samples = self.stream.share(BATCH, self.rank, self.world_size)
        self._note(samples.tolist())
        inputs = self.inputs[samples] + 0.01 * torch.randn(BATCH, self.inputs.shape[1])
        if self.step == self.hang_step and self.rank == 1:
            never_ending()
        loss = (self.parallel(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        turn.before_update()
        self.optimizer.step()
        if self.bad_step == -self.step:
            return StepResult(loss.detach(), BATCH, gradient_norm=torch.tensor(float("inf")))
        return StepResult(
            float("nan") if self.step == self.bad_step and self.rank == 1 else loss.detach(), BATCH
        )

    def _note(self, samples: list[int]) -> None:
        """Note which samples this rank took in which step of which attempt, to be counted."""
        path = Path(os.environ["TRAINYARD_RUN_DIR"]) / "samples.jsonl"
        with open(path, "a") as lines:
            lines.write(
                json.dumps([int(os.environ["TRAINYARD_ATTEMPT"]), self.step, samples]) + "\n"
            )

    def files(self) -> Files:
        files: dict[str, object] = {
            rank_file(self.rank): {"position": self.stream.position, "random": seeds.random_state()}
        }
        if self.rank == 0:
            files["model.pt"] = {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
            }
        return files

    def restore(self, saved: Saved) -> None:
        state = load(saved, "model.pt")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        same = saved.world_size == self.world_size
        own = load(saved, rank_file(self.rank if same else 0))
        self.stream.position, self.step = own["position"], saved.step
        if same:
            seeds.restore_random_state(own["random"])

    def final_files(self) -> Files:
        return {"model.pt": self.model.state_dict()} if self.rank == 0 else {}


def never_ending() -> None:
    """Where SIGUSR1 must find this rank."""
    while True:
        time.sleep(0.01)


def main(
    config: LoopConfig, bad_step: int | None = None, hang_step: int | None = None, weights: int = 3
) -> int:
    """One rank of the job."""
    return loop.main(lambda: SmallTask(config, bad_step, hang_step, weights), config)

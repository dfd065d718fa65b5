"""A small model trained by two ranks under any launcher: plain torch, Accelerate or DeepSpeed.

DeepSpeed trains one of ZeRO-1 and one of ZeRO-3.

Before step `--hold-at` it waits for the file `go` in the run's directory.
The batch follows from step and rank alone, and the model from a seed.
So equal numbers of steps end in equal weights.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from trainyard_job.common.attempt import Attempt
from trainyard_job.common.exits import STOPPED
from trainyard_job.common.progress import Progress
from trainyard_job.common.signals import Requests
from trainyard_trainers.checkpoints.checkpointer import Checkpointer, load

parser = argparse.ArgumentParser()
parser.add_argument("--library", choices=["torch", "accelerate", "deepspeed"], default="torch")
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--hold-at", type=int, default=-1)
arguments = parser.parse_args()
LOSS = nn.MSELoss()


def new_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


class Torch:
    """DistributedDataParallel and AdamW; every rank has all of the state."""

    def __init__(self) -> None:
        dist.init_process_group("gloo")
        model = self.plain = new_model()
        self.model = nn.parallel.DistributedDataParallel(model)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def update(self, inputs, targets):
        loss = LOSS(self.model(inputs), targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def files(self, step):
        state = {"model": self.plain.state_dict(), "optimizer": self.optimizer.state_dict()}
        return {"state.pt": state} if dist.get_rank() == 0 else {}

    def restore(self, saved):
        state = load(saved, "state.pt")
        self.plain.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def weights(self):
        return self.plain.state_dict()


class Accelerate(Torch):
    """The same, as an Accelerate program says it."""

    def __init__(self) -> None:
        from accelerate import Accelerator

        self.accelerator = Accelerator()
        model = self.plain = new_model()
        self.model, self.optimizer = self.accelerator.prepare(
            model, torch.optim.AdamW(model.parameters(), lr=1e-2)
        )

    def update(self, inputs, targets):
        loss = LOSS(self.model(inputs), targets)
        self.optimizer.zero_grad()
        self.accelerator.backward(loss)
        self.optimizer.step()
        return float(loss.detach())


class Zero:
    """One ZeRO stage: each rank saves what it holds of the optimizer.

    DeepSpeed's own checkpoint travels inside Trainyard's.
    """

    def __init__(self, stage: int) -> None:
        import deepspeed

        self.stage, self.deepspeed, model = stage, deepspeed, new_model()
        config = {
            "train_micro_batch_size_per_gpu": 8,
            "zero_optimization": {"stage": stage},
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
        }
        self.engine, *_ = deepspeed.initialize(
            model=model, model_parameters=model.parameters(), config=config
        )
        self.directory = Path(os.environ["TRAINYARD_ATTEMPT_DIR"], "deepspeed", f"zero-{stage}")

    def update(self, inputs, targets):
        loss = LOSS(self.engine(inputs), targets)
        self.engine.backward(loss)
        self.engine.step()
        return float(loss.detach())

    def files(self, step):
        self.engine.save_checkpoint(str(self.directory), tag=f"step-{step}")
        rank = dist.get_rank()
        found = sorted((self.directory / f"step-{step}").iterdir())
        mine = [
            path
            for path in found
            if f"zero_pp_rank_{rank}_" in path.name
            or (rank == 0 and path.name.startswith("mp_rank_"))
        ]
        return {f"zero-{self.stage}-{path.name}": path.read_bytes() for path in mine}

    def restore(self, saved):
        begin = f"zero-{self.stage}-"
        if dist.get_rank() == 0:
            (self.directory / "resumed").mkdir(parents=True)
            for path in saved.path.glob(f"{begin}*"):
                (self.directory / "resumed" / path.name.removeprefix(begin)).write_bytes(
                    path.read_bytes()
                )
        dist.barrier()
        self.engine.load_checkpoint(str(self.directory), tag="resumed")

    def weights(self):
        with self.deepspeed.zero.GatheredParameters(
            list(self.engine.module.parameters()), enabled=self.stage == 3
        ):
            return {
                f"zero-{self.stage}.{name}": value.detach().clone()
                for name, value in self.engine.module.state_dict().items()
            }


class DeepSpeed:
    """Both stages side by side: imports and process groups are what costs."""

    def __init__(self) -> None:
        import deepspeed

        deepspeed.init_distributed("gloo")
        self.stages = [Zero(1), Zero(3)]

    def update(self, inputs, targets):
        return sum(stage.update(inputs, targets) for stage in self.stages)

    def files(self, step):
        return {
            name: content for stage in self.stages for name, content in stage.files(step).items()
        }

    def restore(self, saved):
        for stage in self.stages:
            stage.restore(saved)

    def weights(self):
        return {name: value for stage in self.stages for name, value in stage.weights().items()}


requests = Requests.install()
trainer = {"torch": Torch, "accelerate": Accelerate, "deepspeed": DeepSpeed}[arguments.library]()
rank, world_size = dist.get_rank(), dist.get_world_size()
attempt = Attempt.from_environment()
checkpoints = Checkpointer(attempt)
saved = checkpoints.newest()
if saved:
    trainer.restore(saved)
step = saved.step if saved else 0
progress = Progress(
    attempt.attempt_dir, world_size=world_size, resumed_from=saved.step if saved else None
)
while step < arguments.steps:
    if step == arguments.hold_at:
        while not (attempt.run_dir / "go").exists() and not requests.stop:
            time.sleep(0.02)
    inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(1000 * step + rank))
    loss = trainer.update(inputs, inputs.sum(dim=1, keepdim=True))
    step += 1
    told = torch.tensor([float(requests.stop), loss])
    dist.all_reduce(told)
    if rank == 0:
        progress.step(step, float(told[1]) / world_size, last=step == arguments.steps)
    if told[0] or step % 4 == 0 or step == arguments.steps:
        checkpoints.save(step, trainer.files(step))
    if told[0] and step < arguments.steps:
        sys.exit(STOPPED)
weights = trainer.weights()
checkpoints.finish(step, {"model.pt": weights} if rank == 0 else {})
dist.destroy_process_group()

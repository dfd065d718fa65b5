"""The classic data-parallel job on CPU: a linear layer 20 to 1 on 2,048 samples, batches of 32 a rank, SGD, gloo.

Resume is exact. Model and optimizer lie in the checkpoint once, random state and data position once for every rank, so a run that was
killed and resumed, on the same hosts or others, ends with the very bits of one that was not.

    torchrun --nproc-per-node 2 -m trainyard_trainers.ddp --steps 200
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from .attempt import Attempt
from .checkpoint import Writer
from .collective import Checkpoints, load, rank_file, torch_writer
from .exits import CHECKPOINT_FAILED, COMPLETE, FENCED, STOPPED, CheckpointFailed, Fenced
from .failure import record_exception
from .progress import Progress
from .signals import Requests

SAMPLES, FEATURES, BATCH = 2048, 20, 32


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="trainyard_trainers.ddp", description="Data-parallel training on CPU that resumes exactly.")
    parser.add_argument("--steps", type=int, default=200, help="train until this step (default %(default)s)")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="pause after each step; stands in for heavier compute")
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--noise", type=float, default=0.01, help="standard deviation of the noise added to each batch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-every", type=int, default=10, help="print the loss each so many steps")
    return parser.parse_args(argv)


def make_samples(seed: int) -> tuple[Tensor, Tensor]:
    """Inputs (2048, 20) and targets (2048, 1) of a noisy linear rule, the same on every rank."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(SAMPLES, FEATURES, generator=generator)
    rule = torch.randn(FEATURES, 1, generator=generator)
    return inputs, inputs @ rule + 0.1 * torch.randn(SAMPLES, 1, generator=generator)


@dataclass
class Position:
    """Where in the data a rank stands: batches taken of this epoch."""

    epoch: int = 0
    batch: int = 0


class Sampler:
    """Batches of 32 samples a rank: one permutation an epoch, dealt out to the ranks in turn."""

    def __init__(self, seed: int, rank: int, world_size: int) -> None:
        if world_size * BATCH > SAMPLES:
            raise ValueError(
                f"{world_size} ranks need {world_size * BATCH} samples a step, but there are {SAMPLES}; use at most {SAMPLES // BATCH} ranks"
            )
        self._seed, self._rank, self._world_size = seed, rank, world_size
        self.position = Position()
        self._order = self._shuffle()

    def _shuffle(self) -> Tensor:
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + self.position.epoch)
        return torch.randperm(SAMPLES, generator=generator)[self._rank :: self._world_size]

    def seek(self, epoch: int, batch: int) -> None:
        """Go to where a checkpoint left off."""
        self.position = Position(epoch, batch)
        self._order = self._shuffle()

    def next(self) -> Tensor:
        """Indices of the next batch, shape (32,)."""
        # The shortest rank's share counts, so that all ranks start the next epoch at the same step.
        if (self.position.batch + 1) * BATCH > SAMPLES // self._world_size:
            self.seek(self.position.epoch + 1, 0)
        start = self.position.batch * BATCH
        self.position.batch += 1
        return self._order[start : start + BATCH]


class Training:
    """Model, optimizer, data and random state of one rank, and how they are saved and restored."""

    def __init__(self, arguments: argparse.Namespace, rank: int, world_size: int) -> None:
        self.arguments, self.rank, self.world_size = arguments, rank, world_size
        self.inputs, self.targets = make_samples(arguments.seed)
        self.sampler = Sampler(arguments.seed, rank, world_size)
        self.step = 0
        torch.manual_seed(arguments.seed)
        self.model = nn.Linear(FEATURES, 1)
        torch.manual_seed(arguments.seed * 1009 + rank + 1)  # from here on every rank draws its own noise
        self.parallel = DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=arguments.learning_rate, momentum=arguments.momentum)

    def files(self) -> Mapping[str, Writer]:
        """This rank's files of a checkpoint."""
        position = self.sampler.position
        own = {"epoch": position.epoch, "batch": position.batch, "random": torch.get_rng_state()}
        files = {rank_file(self.rank): torch_writer(own)}
        if self.rank == 0:
            files["model.pt"] = torch_writer(self.model.state_dict())
            files["optimizer.pt"] = torch_writer(self.optimizer.state_dict())
        return files

    def resume(self, checkpoints: Checkpoints) -> int | None:
        """Restore the newest whole checkpoint; returns its step, None when training starts fresh."""
        saved = checkpoints.newest()
        if saved is None:
            return None
        self.step = saved.step
        self.model.load_state_dict(load(saved, "model.pt"))
        self.optimizer.load_state_dict(load(saved, "optimizer.pt"))
        if saved.world_size == self.world_size:
            own = load(saved, rank_file(self.rank))
            self.sampler.seek(own["epoch"], own["batch"])
            torch.set_rng_state(own["random"])
        else:
            self._resume_with_other_world(saved.step, saved.world_size)
        return saved.step

    def _resume_with_other_world(self, step: int, world_size: int) -> None:
        """With more or fewer ranks go on in the same epoch after as many samples; correct, but no longer bit for bit."""
        if self.rank == 0:
            print(
                f"trainyard: {world_size} ranks wrote this checkpoint, {self.world_size} resume it: not bit-equal from here on",
                file=sys.stderr,
            )
        batches = SAMPLES // world_size // BATCH
        epoch, batch = divmod(step, batches)
        self.sampler.seek(epoch, batch * world_size // self.world_size)
        torch.manual_seed(self.arguments.seed * 1009 + step * 31 + self.rank + 1)

    def train_step(self) -> float:
        """One step of SGD on the next batch; returns this rank's loss."""
        batch = self.sampler.next()
        inputs = self.inputs[batch] + self.arguments.noise * torch.randn(BATCH, FEATURES)
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.parallel(inputs), self.targets[batch])
        loss.backward()  # type: ignore[no-untyped-call]  # DDP averages the gradients here
        self.optimizer.step()
        self.step += 1
        return float(loss.detach())


@dataclass(frozen=True)
class Agreement:
    """What all ranks know alike after a step."""

    loss: float
    stop: bool
    checkpoint: bool


def agree(loss: float, requests: Requests, due: bool, world_size: int) -> Agreement:
    """One small collective a step: the mean loss, whether any rank was asked to stop, whether a checkpoint is due.

    Signals and clocks differ from rank to rank; without this two ranks could save at different steps and wait for each other forever.
    """
    asked, requests.checkpoint = requests.checkpoint, False
    shared = torch.tensor([loss, float(requests.stop), float(due or asked)], dtype=torch.float64)
    dist.all_reduce(shared)
    return Agreement(float(shared[0]) / world_size, bool(shared[1] > 0), bool(shared[2] > 0))


def train(arguments: argparse.Namespace, attempt: Attempt, requests: Requests) -> int:
    """Train to the last step; returns the exit code. Raises Fenced and CheckpointFailed."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    checkpoints = Checkpoints(attempt)
    training = Training(arguments, rank, world_size)
    resumed_from = training.resume(checkpoints)
    progress = Progress(attempt.attempt_dir, world_size=world_size, resumed_from=resumed_from) if rank == 0 else None
    if rank == 0:
        print("training starts fresh" if resumed_from is None else f"training resumes after step {resumed_from}", flush=True)
    while training.step < arguments.steps:
        loss = training.train_step()
        agreed = agree(loss, requests, rank == 0 and checkpoints.due(training.step), world_size)
        last = training.step == arguments.steps
        if progress:
            progress.step(training.step, agreed.loss, last=last or agreed.stop)
            if last or agreed.stop or training.step % arguments.log_every == 0:
                print(f"step {training.step} loss {agreed.loss:.6f}", flush=True)
        if last or agreed.stop or agreed.checkpoint:
            checkpoints.save(training.step, training.files(), must=last)
        if agreed.stop and not last:
            if rank == 0:
                print(f"asked to stop: stopped after step {training.step}", flush=True)
            return STOPPED
        if arguments.step_seconds:
            time.sleep(arguments.step_seconds)
    final = checkpoints.finish(training.step, {"model.pt": torch_writer(training.model.state_dict())} if rank == 0 else {})
    if rank == 0:
        print(f"training is complete after step {training.step}: {final}", flush=True)
    return COMPLETE


def main(argv: list[str] | None = None) -> int:
    """Entry of `python -m trainyard_trainers.ddp` under torchrun."""
    arguments = parse_arguments(argv)
    requests = Requests.install()
    torch.set_num_threads(1)
    # A rank whose peer vanished without a word fails after this long; the agent is much faster, this is the last resort.
    dist.init_process_group("gloo", timeout=timedelta(minutes=5))
    try:
        return train(arguments, Attempt.from_environment(), requests)
    except Fenced as error:
        print(f"trainyard: {error}", file=sys.stderr, flush=True)
        return FENCED
    except CheckpointFailed as error:
        print(f"trainyard: {error}", file=sys.stderr, flush=True)
        record_exception(error)
        return CHECKPOINT_FAILED
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())

"""The data-parallel job as a tutorial writes it; `trainyard_trainers.ddp` is measured against it.

    torchrun --nproc-per-node 8 bench/plain_ddp.py --steps 400 --weights build/plain.pt

A `DataLoader` with a `DistributedSampler`, `DistributedDataParallel`, SGD, and the loss on the
screen now and then. It knows neither checkpoints nor signals. The data, the first weights and the
order of samples are those of the trainer with `--noise 0`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SAMPLES, FEATURES, BATCH = 2048, 20, 32


def dataset(seed: int) -> TensorDataset:
    """A noisy linear rule: inputs (2048, 20), targets (2048, 1)."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(SAMPLES, FEATURES, generator=generator)
    rule = torch.randn(FEATURES, 1, generator=generator)
    return TensorDataset(inputs, inputs @ rule + 0.1 * torch.randn(SAMPLES, 1, generator=generator))


def batches(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """This rank's batches, epoch after epoch."""
    data = dataset(seed)
    sampler: DistributedSampler[tuple[Tensor, ...]] = DistributedSampler(data, seed=seed)
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler)
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def train(options: argparse.Namespace) -> None:
    torch.manual_seed(options.seed)
    model = DistributedDataParallel(nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(
        model.parameters(), lr=options.learning_rate, momentum=options.momentum
    )
    began, warm_up = time.perf_counter(), min(options.warm_up, options.steps - 1)
    for step, (inputs, targets) in enumerate(batches(options.seed), 1):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if dist.get_rank() == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
        if step == warm_up:
            began = time.perf_counter()
        if step == options.steps:
            break
    seconds = time.perf_counter() - began
    if dist.get_rank() == 0:
        samples = (options.steps - warm_up) * BATCH * dist.get_world_size()
        print(
            json.dumps(
                {
                    "samplesPerSecond": samples / seconds,
                    "stepSeconds": seconds / (options.steps - warm_up),
                }
            ),
            flush=True,
        )
        if options.weights:
            torch.save(model.module.state_dict(), options.weights)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--warm-up", type=int, default=50, help="steps before the clock starts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weights", default="", help="where rank 0 puts the final weights")
    options = parser.parse_args(argv)
    dist.init_process_group("gloo")
    train(options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""A script for SageMaker's script mode, in the way of AWS's documentation.

It knows SageMaker only: hyperparameters come as arguments, directories as variables, and
its checkpoints are its own.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn


def arguments() -> argparse.Namespace:
    """What SageMaker passes, and where it says that files are."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--epoch-seconds", type=float, default=0.0)  # for compute
    parser.add_argument("--model-dir", type=Path, default=os.environ["SM_MODEL_DIR"])
    parser.add_argument("--train", type=Path, default=os.environ["SM_CHANNEL_TRAIN"])
    parser.add_argument("--checkpoint-path", type=Path, default="/opt/ml/checkpoints")
    return parser.parse_args()


def points(directory: Path) -> torch.Tensor:
    """Rows of numbers, the last of each is to be learned: shape (rows, columns)."""
    rows = [
        [float(word) for word in line.split(",")]
        for path in sorted(directory.glob("*.csv"))
        for line in path.read_text().splitlines()
    ]
    return torch.tensor(rows)


def newest(directory: Path) -> Path | None:
    """Its own last checkpoint."""
    found = sorted(directory.glob("epoch-*.pt")) if directory.is_dir() else []
    return found[-1] if found else None


def join() -> tuple[int, int]:
    """Rank and world size: a launcher's, or one process for each host."""
    hosts = json.loads(os.environ["SM_HOSTS"])
    rank = int(os.environ.get("RANK", hosts.index(os.environ["SM_CURRENT_HOST"])))
    size = int(os.environ.get("WORLD_SIZE", len(hosts)))
    if size > 1:
        dist.init_process_group("gloo", rank=rank, world_size=size)
    return rank, size


def train(given: argparse.Namespace) -> None:
    rank, size = join()
    data = points(given.train)[rank::size]
    torch.manual_seed(0)
    model = nn.Linear(data.shape[1] - 1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=given.learning_rate, momentum=0.9)
    first = 0
    if path := newest(given.checkpoint_path):
        saved = torch.load(path, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"]
        print(f"goes on after epoch {first}", flush=True)
    for epoch in range(first + 1, given.epochs + 1):
        optimizer.zero_grad()
        loss = (model(data[:, :-1]) - data[:, -1:]).square().mean()
        loss.backward()
        for parameter in model.parameters() if size > 1 else ():
            dist.all_reduce(parameter.grad)
            parameter.grad /= size
        optimizer.step()
        time.sleep(given.epoch_seconds)
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)
            given.checkpoint_path.mkdir(parents=True, exist_ok=True)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            path = given.checkpoint_path / f"epoch-{epoch:06d}.pt"
            torch.save({"epoch": epoch, **state}, path)
    if rank == 0:
        torch.save(model.state_dict(), given.model_dir / "model.pt")
    if size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    train(arguments())

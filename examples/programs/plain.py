"""A program with plain torch: it resumes, saves, and stops when it is asked to."""

import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import trainyard_job

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
arguments = parser.parse_args()

if "RANK" in os.environ:
    dist.init_process_group("gloo")
rank = dist.get_rank() if dist.is_initialized() else 0
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Dropout(0.1), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
torch.manual_seed(rank)  # from here on each rank draws numbers of its own
step = 0

saved = trainyard_job.latest()
if saved:
    state = torch.load(saved.path / "state.pt", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step = saved.step
    if (own := saved.path / f"random-{rank}.pt").exists():
        torch.set_rng_state(torch.load(own, weights_only=True))
parallel = DistributedDataParallel(model) if dist.is_initialized() else model

while step < arguments.steps:
    inputs = torch.randn(32, 8)
    loss = (parallel(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    trainyard_job.report(step, loss=loss, rate=optimizer.param_groups[0]["lr"])
    if trainyard_job.due(step):
        with trainyard_job.checkpoint(step) as directory:
            torch.save(torch.get_rng_state(), directory / f"random-{rank}.pt")
            if rank == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(state, directory / "state.pt")
    if trainyard_job.should_stop():
        sys.exit(trainyard_job.STOPPED)

if rank == 0:
    torch.save(model.state_dict(), trainyard_job.output_dir() / "model.pt")
if dist.is_initialized():
    dist.destroy_process_group()

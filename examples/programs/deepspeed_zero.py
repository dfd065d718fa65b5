"""A program with DeepSpeed's ZeRO: the engine's checkpoints become whole ones."""

import argparse
import sys

import deepspeed
import torch
import torch.distributed as dist
from torch import nn

import trainyard_job
from trainyard_job.deepspeed import load_checkpoint, save_checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--local_rank", type=int, default=0, help="DeepSpeed's launcher gives it")
arguments = parser.parse_args()

deepspeed.init_distributed()
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 32,
        "zero_optimization": {"stage": 2},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
    },
)

step, _ = load_checkpoint(engine)
while step < arguments.steps:
    # The batch follows from rank and step alone, so a resumed run sees the same data.
    random = torch.Generator().manual_seed(step * 1000 + rank)
    inputs = torch.randn(32, 8, generator=random).to(engine.device)
    loss = (engine(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
    engine.backward(loss)
    engine.step()
    step += 1
    trainyard_job.report(step, loss=loss)
    if trainyard_job.due(step):
        save_checkpoint(engine, step)
    if trainyard_job.should_stop():
        sys.exit(trainyard_job.STOPPED)

if rank == 0:
    torch.save(engine.module.state_dict(), trainyard_job.output_dir() / "model.pt")
dist.destroy_process_group()

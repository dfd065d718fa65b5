"""A program with Hugging Face Accelerate: its states become whole checkpoints."""

import argparse
import sys

import torch
from accelerate import Accelerator
from torch import nn

import trainyard_job
from trainyard_job.accelerate import load_state, save_state

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
arguments = parser.parse_args()

accelerator = Accelerator(cpu=not torch.cuda.is_available())
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Dropout(0.1), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
model, optimizer = accelerator.prepare(model, optimizer)
torch.manual_seed(accelerator.process_index)

step = load_state(accelerator)
while step < arguments.steps:
    inputs = torch.randn(32, 8, device=accelerator.device)
    loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    step += 1
    trainyard_job.report(step, loss=loss)
    if trainyard_job.due(step):
        save_state(accelerator, step)
    if trainyard_job.should_stop():
        sys.exit(trainyard_job.STOPPED)

if accelerator.is_main_process:
    weights = accelerator.unwrap_model(model).state_dict()
    torch.save(weights, trainyard_job.output_dir() / "model.pt")
accelerator.end_training()

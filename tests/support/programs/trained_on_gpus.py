"""Trains on GPUs under torchrun and overwrites one snapshot, as people learn it from tutorials.

    trained_on_gpus.py EPOCHS SAVE_EVERY

It knows nothing of Trainyard, and of nothing but GPUs.
"""

import os
import sys
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SNAPSHOT = Path("snapshot.pt")
SAMPLES, BATCH = 2048, 32


def data() -> DataLoader[tuple[torch.Tensor, ...]]:
    numbers = torch.Generator().manual_seed(7)
    inputs = torch.rand(SAMPLES, 20, generator=numbers)
    samples = TensorDataset(inputs, inputs.square().sum(dim=1, keepdim=True))
    return DataLoader(samples, batch_size=BATCH, sampler=DistributedSampler(samples))


def save(model: DistributedDataParallel, epoch: int) -> None:
    torch.save({"MODEL_STATE": model.module.state_dict(), "EPOCHS_RUN": epoch}, SNAPSHOT)


def main(epochs: int, save_every: int) -> None:
    gpu = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(gpu)
    distributed.init_process_group(backend="nccl")
    model, first = nn.Linear(20, 1), 0
    if SNAPSHOT.exists():
        found = torch.load(SNAPSHOT, map_location=f"cuda:{gpu}")
        model.load_state_dict(found["MODEL_STATE"])
        first = found["EPOCHS_RUN"] + 1
        print(f"Resuming after epoch {found['EPOCHS_RUN']}", flush=True)
    parallel = DistributedDataParallel(model.to(gpu), device_ids=[gpu])
    optimizer = torch.optim.SGD(parallel.parameters(), lr=1e-3)
    batches = data()
    for epoch in range(first, epochs):
        batches.sampler.set_epoch(epoch)
        for inputs, targets in batches:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(parallel(inputs.to(gpu)), targets.to(gpu))
            loss.backward()
            optimizer.step()
        print(f"[GPU{gpu}] epoch {epoch} loss {loss.item():.5f}", flush=True)
        if gpu == 0 and epoch % save_every == 0:
            save(parallel, epoch)
    distributed.destroy_process_group()


main(int(sys.argv[1]), int(sys.argv[2]))

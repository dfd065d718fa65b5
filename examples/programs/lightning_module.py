"""A program with Lightning: the callback and `latest` are all that it needs."""

import argparse
from collections.abc import Iterator

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn

import trainyard_job
from trainyard_job.lightning import TrainyardCallback, latest

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--devices", type=int, default=1, help="processes on each node")
parser.add_argument("--nodes", type=int, default=1)
arguments = parser.parse_args()


class Batches:
    """A loader that keeps its position: with these two methods Lightning saves and restores it."""

    def __init__(self, rank: int) -> None:
        self.rank, self.position = rank, 0

    def __len__(self) -> int:
        return 100_000

    def __iter__(self) -> Iterator[torch.Tensor]:
        while self.position < len(self):
            self.position += 1
            random = torch.Generator().manual_seed(self.position * 1000 + self.rank)
            yield torch.randn(8, 8, generator=random)

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position = state["position"]


class Sums(LightningModule):
    """A row's sum."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.1), nn.Linear(64, 1))

    def train_dataloader(self) -> Batches:
        return Batches(self.global_rank)

    def training_step(self, rows: torch.Tensor, batch_idx: int) -> torch.Tensor:
        loss = (self.layers(rows) - rows.sum(dim=1, keepdim=True)).square().mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


torch.manual_seed(0)
model = Sums()
trainer = Trainer(
    max_steps=arguments.steps,
    accelerator="auto" if torch.cuda.is_available() else "cpu",
    strategy="ddp" if arguments.devices * arguments.nodes > 1 else "auto",
    devices=arguments.devices,
    num_nodes=arguments.nodes,
    callbacks=[TrainyardCallback()],
    enable_progress_bar=False,
    logger=False,
)
trainer.fit(model, ckpt_path=latest())
if trainer.is_global_zero:
    torch.save(model.state_dict(), trainyard_job.output_dir() / "model.pt")

"""A program with Hugging Face's Trainer: the callback and `latest` are all that it needs."""

import argparse
import os

import torch
from torch import nn
from transformers import Trainer, TrainingArguments

import trainyard_job
from trainyard_job.transformers import TrainyardCallback, latest

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--save-steps", type=int, default=50)
given = parser.parse_args()


class Model(nn.Module):
    """Any model of yours, or one of `from_pretrained`."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.1), nn.Linear(64, 1))

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        outputs = self.layers(inputs)
        return {"loss": (outputs - labels).square().mean(), "logits": outputs}


class Sums(torch.utils.data.Dataset):
    """Rows of random numbers, and their sums."""

    rows = torch.randn(512, 8, generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"inputs": self.rows[index], "labels": self.rows[index].sum().unsqueeze(0)}


arguments = TrainingArguments(
    output_dir="trainer",
    max_steps=given.steps,
    per_device_train_batch_size=8,
    save_steps=given.save_steps,
    save_total_limit=2,
    logging_steps=10,
    report_to=[],
    disable_tqdm=True,
    use_cpu=not torch.cuda.is_available(),
)
torch.manual_seed(0)
model = Model()
trainer = Trainer(
    model=model, args=arguments, train_dataset=Sums(), callbacks=[TrainyardCallback()]
)
trainer.train(resume_from_checkpoint=latest())
if int(os.environ.get("RANK", "0")) == 0:
    torch.save(model.state_dict(), trainyard_job.output_dir() / "model.pt")

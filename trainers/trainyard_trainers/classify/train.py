"""Trains an image classifier, a multilayer perceptron or a small convolutional network, on
handwritten digits or a file of images.

    torchrun --nproc-per-node 2 -m trainyard_trainers.classify --model conv --steps 300

Data are the 1,797 digits of 8 x 8 pixels that scikit-learn ships, or a .pt or .npz file. Gradients
are averaged by DistributedDataParallel; the validation accuracy counts each held-out image once,
over all ranks. Resume is exact, dropout included.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainyard_job.checkpoints.checkpoint import Saved

from .. import loop
from ..checkpoints.checkpointer import Files, load, load_own, rank_file
from ..common import config, packages, seeds
from ..common.bounds import PART, POSITIVE, Bound, at_least
from ..common.config import ConfigError
from ..common.meaning import Meaning
from ..loop import StepResult, Turn
from ..loop.data import Stream, check_batch
from ..parallel import data_parallel

DIGITS = "digits"


@dataclass(frozen=True)
class ClassifyConfig(loop.LoopConfig):
    """What images, which network, and how it is trained."""

    model: Annotated[
        Literal["mlp", "conv"],
        Meaning("mlp: one hidden layer; conv: two convolutions, a pooling, one hidden layer"),
    ] = "mlp"
    data: Annotated[
        str,
        Meaning(
            "'digits', or a .pt or .npz file with images (count, height, width) or (count, "
            "channels, height, width) and labels (count,)",
            free=True,  # the images themselves are compared
        ),
    ] = DIGITS
    batch: Annotated[int, at_least(1), Meaning("images a rank and step")] = 32
    learning_rate: Annotated[float, POSITIVE, Meaning("AdamW's")] = 0.002
    weight_decay: Annotated[float, at_least(0), Meaning("AdamW's")] = 0.01
    hidden: Annotated[int, at_least(1), Meaning("units of the hidden layer")] = 64
    dropout: Annotated[
        float, PART, Meaning("share of the hidden units that are left out in training")
    ] = 0.1
    validation_share: Annotated[
        float,
        Bound("must be between 0 and 1", gt=0, lt=1),
        Meaning("share of all images that is held out, chosen by the seed"),
    ] = 0.2
    evaluate_every: Annotated[
        int,
        at_least(0),
        Meaning("steps between two looks at the accuracy; 0: one, at the end", free=True),
    ] = 0


@dataclass(frozen=True)
class Images:
    """Images (count, channels, height, width) as float32, and labels (count,) from 0 as int64."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> int:
        return int(self.labels.max()) + 1

    def chosen(self, indices: Tensor) -> Images:
        return Images(self.images[indices], self.labels[indices])

    def fingerprint(self) -> list[float]:
        """A fingerprint of the data, good enough to notice that a file was replaced."""
        places = torch.arange(1, len(self) + 1, dtype=torch.float64)
        sums = self.images.double().flatten(1).sum(1)
        return [
            len(self),
            *self.images.shape[1:],
            float(sums @ places),
            float(self.labels.double() @ places),
        ]


def read_images(data: str) -> Images:
    """The digits, or the images of a file.

    Raises ConfigError that names `data`, and PackageMissing.
    """
    if data == DIGITS:
        found = packages.needed("sklearn.datasets", "data: 'digits'", "scikit-learn").load_digits()
        return Images(
            torch.tensor(found.images.tolist())[:, None] / 16, torch.tensor(found.target.tolist())
        )
    content = _content(Path(data))
    if missing := [name for name in ("images", "labels") if name not in content]:
        raise ConfigError(f"data: {data} has no '{missing[0]}'; it must hold 'images' and 'labels'")
    images, labels = content["images"], content["labels"]
    if images.dim() not in (3, 4) or labels.shape != images.shape[:1] or not len(labels):
        raise ConfigError(
            f"data: {data} has images of shape {tuple(images.shape)} and labels of shape "
            f"{tuple(labels.shape)}; "
            "images must be (count, height, width) or (count, channels, height, width), with one "
            "label each"
        )
    if labels.is_floating_point() or int(labels.min()) < 0:
        raise ConfigError(f"data: the labels in {data} must be whole numbers from 0")
    whole = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    return Images(whole if images.dim() == 4 else whole[:, None], labels.long())


def _content(path: Path) -> dict[str, Tensor]:
    """The tensors in a file. Raises ConfigError."""
    if path.suffix not in (".pt", ".npz"):
        raise ConfigError(f"data: '{path}' is neither '{DIGITS}' nor a .pt or .npz file")
    try:
        if path.suffix == ".npz":
            numpy = packages.needed("numpy", f"data: {path}")
            with numpy.load(path, allow_pickle=False) as arrays:
                return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
        content = torch.load(path, map_location="cpu", weights_only=True)
    except packages.PackageMissing:
        raise
    except (OSError, ValueError, TypeError, RuntimeError, EOFError, zipfile.BadZipFile) as error:
        raise ConfigError(f"data: {path} cannot be read: {error}") from error
    except Exception as error:  # what unpickling raises has no common name
        raise ConfigError(
            f"data: {path} holds more than tensors, or is damaged: {error}"
        ) from error
    if not isinstance(content, dict) or not all(
        isinstance(value, Tensor) for value in content.values()
    ):
        raise ConfigError(f"data: {path} must hold a dict of the tensors 'images' and 'labels'")
    return content


def split(found: Images, share: float, seed: int) -> tuple[Images, Images]:
    """(training, validation) images, standardised by the training images' mean and deviation; the
    same on every rank. Raises ConfigError.
    """
    held_out = round(len(found) * share)
    if not 0 < held_out < len(found):
        raise ConfigError(
            f"validation_share: {share} of {len(found)} images leaves none to train or to validate "
            "on; give more images"
        )
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(seed))
    training = found.images[order[held_out:]]
    scaled = Images((found.images - training.mean()) / training.std().clamp(min=1e-6), found.labels)
    return scaled.chosen(order[held_out:]), scaled.chosen(order[:held_out])


def make_model(settings: ClassifyConfig, shape: torch.Size, classes: int) -> nn.Module:
    """A network from images of `shape` (channels, height, width) to logits (count, classes).

    Raises ConfigError.
    """
    channels, height, width = shape
    if settings.model == "mlp":
        body: list[nn.Module] = [nn.Flatten(), nn.Linear(shape.numel(), settings.hidden), nn.ReLU()]
    else:
        if min(height, width) < 2:
            raise ConfigError(
                f"model: conv needs images of 2 x 2 pixels or more, and these are {height} x "
                f"{width}; use mlp"
            )
        body = [
            nn.Conv2d(channels, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        ]
        body += [nn.Linear(32 * (height // 2) * (width // 2), settings.hidden), nn.ReLU()]
    return nn.Sequential(*body, nn.Dropout(settings.dropout), nn.Linear(settings.hidden, classes))


class Classify:
    """Model, optimizer and data of one rank."""

    def __init__(self, settings: ClassifyConfig) -> None:
        self.settings = settings
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        found = read_images(settings.data)
        self.fingerprint = found.fingerprint()
        self.training, self.validation = split(found, settings.validation_share, settings.seed)
        check_batch("batch", settings.batch, self.world_size, len(self.training))
        self.stream = Stream(len(self.training), settings.seed)
        self.step = 0
        self.device = data_parallel.own_device()
        torch.manual_seed(settings.seed)
        self.model = make_model(settings, found.images.shape[1:], found.classes).to(self.device)
        self.parallel = data_parallel.wrapped(
            self.model,
            self.device,
            lambda model: self._loss(model, torch.zeros(1, dtype=torch.int64)),
        )
        seeds.seed_rank(settings.seed, self.rank)  # from here on every rank draws its own dropout
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )

    def _loss(self, model: nn.Module, indices: Tensor) -> Tensor:
        batch = self.training.chosen(indices)
        return nn.functional.cross_entropy(
            model(batch.images.to(self.device)), batch.labels.to(self.device)
        )

    def train_step(self, turn: Turn) -> StepResult:
        loss = self._loss(
            self.parallel, self.stream.share(self.settings.batch, self.rank, self.world_size)
        )
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # DDP averages the gradients here
        turn.before_update()
        self.optimizer.step()
        self.step += 1
        if self.settings.evaluate_every and self.step % self.settings.evaluate_every == 0:
            self.accuracy()
        return StepResult(loss.detach(), self.settings.batch)

    @torch.no_grad()
    def accuracy(self) -> float:
        """Share of the validation images that are classified right.

        All ranks call it; it draws no random number, and rank 0 prints it.
        """
        self.model.eval()
        right = torch.zeros(1, dtype=torch.float64)
        own = torch.arange(self.rank, len(self.validation), self.world_size)
        for start in range(0, len(own), 256):
            batch = self.validation.chosen(own[start : start + 256])
            right += (
                self.model(batch.images.to(self.device)).argmax(dim=1).cpu() == batch.labels
            ).sum()
        self.model.train()
        dist.all_reduce(right)
        share = float(right) / len(self.validation)
        if self.rank == 0:
            print(
                f"validation after step {self.step}: accuracy {share:.4f} of "
                f"{len(self.validation)} images",
                flush=True,
            )
        return share

    def files(self) -> Files:
        files: dict[str, object] = {
            rank_file(self.rank): {**self.stream.state(), "random": seeds.random_state()}
        }
        if self.rank == 0:
            files["model.pt"] = self.model.state_dict()
            files["optimizer.pt"] = self.optimizer.state_dict()
            files["task.pt"] = {
                "model": self.settings.model,
                "hidden": self.settings.hidden,
                "data": self.fingerprint,
            }
        return files

    def _check(self, saved: Saved) -> None:
        """Raises ConfigError when the checkpoint is one of another model or of other data."""
        task: dict[str, Any] = load(saved, "task.pt")
        for key in ("model", "hidden"):
            if task[key] != getattr(self.settings, key):
                raise ConfigError(
                    f"{key}: {saved.path.name} was trained with {task[key]}; use that, or a new run"
                )
        if task["data"] != self.fingerprint:
            raise ConfigError(
                f"data: {self.settings.data} is not what {saved.path.name} was trained on; put it "
                "back, or use a new run"
            )

    def restore(self, saved: Saved) -> None:
        self._check(saved)
        self.model.load_state_dict(load(saved, "model.pt"))
        self.optimizer.load_state_dict(load(saved, "optimizer.pt"))
        self.stream.restore(load_own(saved, self.settings.seed))
        self.step = saved.step

    def final_files(self) -> Files:
        """The weights, and `metrics.json` with the validation accuracy."""
        metrics = {
            "step": self.step,
            "accuracy": self.accuracy(),
            "validationImages": len(self.validation),
        }
        if self.rank:
            return {}
        return {
            "model.pt": self.model.state_dict(),
            "metrics.json": (json.dumps(metrics, indent=1) + "\n").encode(),
        }


def main(argv: list[str] | None = None) -> int:
    """Entry of `python -m trainyard_trainers.classify` under torchrun."""
    settings = config.parse(ClassifyConfig, argv, prog="trainyard_trainers.classify")
    return loop.main(lambda: Classify(settings), settings, backend=data_parallel.backend)

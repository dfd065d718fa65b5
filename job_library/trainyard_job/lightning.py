"""Makes the checkpoints of Lightning's Trainer whole.

from trainyard_job.lightning import TrainyardCallback, latest

trainer = Trainer(..., callbacks=[TrainyardCallback()])
trainer.fit(model, ckpt_path=latest())

Or those of a ModelCheckpoint of your own, where it saves them:

from trainyard_job.lightning import WholeCheckpointIO, latest_in

trainer = Trainer(..., callbacks=[ModelCheckpoint("saved")], plugins=[WholeCheckpointIO()])
trainer.fit(model, ckpt_path=latest_in("saved"))
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch.callbacks import Checkpoint

from .api import Job, current
from .common.exits import STOPPED
from .common.files import fsync_directory, replacing, write_json
from .random_state import random_state, restore_random_state

#: In a checkpoint: Lightning's own file (with sharded strategies a directory).
FILE = "lightning.ckpt"
#: Beside files of a ModelCheckpoint: a directory with a manifest of each. Lightning takes any file
#: there for a checkpoint that has "last" in its name, so none lies among them.
MANIFESTS = ".whole"
_READ_BYTES = 1024 * 1024


def latest() -> str | None:
    """The newest whole checkpoint for `ckpt_path`; None if there is none.

    Collective: call it on every rank.
    """
    saved = current().latest()
    return str(saved.path / FILE) if saved else None


class TrainyardCallback(Checkpoint):  # type: ignore[misc]
    """Saves when `trainyard_job.due` says so, and at the end of the training.

    A checkpoint has Lightning's own file and the random states of all ranks, which Lightning does
    not save; it is whole or absent. When the job should stop, it saves and exits with STOPPED: the
    signal is taken over from Lightning, which would end without a save. Steps, the loss and what
    the module logs are reported, the numbers every `log_every_n_steps`.

    The launcher must give each rank its RANK and WORLD_SIZE (torchrun does).
    """

    def __init__(self) -> None:
        self._step = self._saved_step = 0
        self._loss: float | None = None
        self._resumes = False

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._step = self._saved_step = trainer.global_step
        self._resumes = Path(trainer.ckpt_path or "").name == FILE
        current().listen()

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Here, since making the iterators of the data has drawn random numbers."""
        if self._resumes:
            self._resumes = False
            path = Path(trainer.ckpt_path).with_name(_random_file(current()))
            if path.exists():  # not on another number of ranks
                restore_random_state(torch.load(path, weights_only=True))

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == self._step:  # gradients are being accumulated
            return
        self._step = trainer.global_step
        job = current()
        self._report(job, trainer, outputs)
        if job.due(self._step):
            self._save(job, trainer)
        if job.should_stop():
            if job.place.rank == 0:
                print(f"asked to stop: stopped after step {self._step}", flush=True)
            sys.exit(STOPPED)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self._saved_step != trainer.global_step:
            self._save(current(), trainer)
        current().flush()

    def _save(self, job: Job, trainer: Any) -> None:
        step = trainer.global_step
        with job.checkpoint(step, shared=True) as directory:
            trainer.save_checkpoint(directory / FILE)
            torch.save(random_state(), directory / _random_file(job))
        self._saved_step = step

    def _report(self, job: Job, trainer: Any, outputs: Any) -> None:
        metrics: dict[str, float] = {}
        if self._step % trainer.log_every_n_steps == 0:  # reading a number waits for the device
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            self._loss = None if loss is None else float(loss)
            metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        job.report(self._step, self._loss, metrics)


def _random_file(job: Job) -> str:
    return f"random-{job.place.rank:05d}.pt"


class NotWhole(RuntimeError):
    """A file of a ModelCheckpoint is not what was saved."""


class WholeCheckpointIO(TorchCheckpointIO):  # type: ignore[misc]
    """Each file that a ModelCheckpoint of your own saves is whole, or is not there.

    It is written beside, synced and hashed, its manifest is written, and it gets its name: that
    rename is the commit. A file that was there before stays whole until then. One with a manifest
    is compared with it when it is loaded; one without, of another origin, is loaded as it is.

    For strategies in which one rank writes one file (a single device, DDP). Those with sharded
    checkpoints take no such plugin.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Raises ValueError for a path that is none of a filesystem, TypeError for options."""
        if storage_options is not None:
            raise TypeError("storage_options: WholeCheckpointIO has none")
        if "://" in str(path):
            raise ValueError(f"{path}: a checkpoint can be whole in a directory only, not at a URL")
        target = Path(path)
        manifest = _manifest_of(target)
        manifest.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target, durable=True) as stream:
            torch.save(checkpoint, stream)
            stream.flush()
            os.fsync(stream.fileno())
            known = {
                "step": int(checkpoint.get("global_step", 0)),
                "sha256": _sha256(Path(stream.name)),
                "before": _read(manifest).get("sha256"),
            }
            write_json(manifest, known)
            fsync_directory(manifest.parent)
        fsync_directory(target.parent)

    def load_checkpoint(self, path: Any, *given: Any, **named: Any) -> dict[str, Any]:
        """Raises NotWhole, and FileNotFoundError."""
        target = Path(path)
        if target.is_file() and _read(_manifest_of(target)) and not _is_whole(target):
            raise NotWhole(
                f"{path} is not what was saved: its SHA-256 differs from its manifest's. "
                "Take latest_in(directory), which passes over such files"
            )
        found: dict[str, Any] = super().load_checkpoint(path, *given, **named)
        return found

    def remove_checkpoint(self, path: Any) -> None:
        super().remove_checkpoint(path)
        _manifest_of(Path(path)).unlink(missing_ok=True)


def latest_in(directory: str | os.PathLike[str]) -> str | None:
    """Of the whole files there that a WholeCheckpointIO saved, the one of the highest step.

    For `ckpt_path`; None if there is none. Each rank reads the files, so call it before the
    training, on a filesystem that all nodes share.
    """
    top = Path(directory)
    found = sorted(_steps(top), key=lambda one: (one[0], one[1].name), reverse=True)
    for _, path in found:
        if _is_whole(path):
            return str(path)
        print(f"{path} is not whole: it is passed over", file=sys.stderr, flush=True)
    return None


def _steps(top: Path) -> Iterator[tuple[int, Path]]:
    for manifest in (top / MANIFESTS).glob("*.json"):
        path = top / manifest.name.removesuffix(".json")
        if path.is_file():
            yield int(_read(manifest).get("step") or 0), path


def _manifest_of(path: Path) -> Path:
    return path.parent / MANIFESTS / f"{path.name}.json"


def _read(manifest: Path) -> dict[str, Any]:
    """Empty for none that can be read: a manifest is replaced at once, so it is never half."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(manifest.read_text())
        return found if isinstance(found, dict) else {}
    return {}


def _is_whole(path: Path) -> bool:
    """Also before the commit of what is to replace it."""
    known = _read(_manifest_of(path))
    return _sha256(path) in (known.get("sha256"), known.get("before"))


def _sha256(path: Path) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as stream:
        while part := stream.read(_READ_BYTES):
            found.update(part)
    return found.hexdigest()

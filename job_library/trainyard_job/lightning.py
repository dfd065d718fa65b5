"""Makes the checkpoints of Lightning's Trainer whole.

from trainyard_job.lightning import TrainyardCallback, latest

trainer = Trainer(..., callbacks=[TrainyardCallback()])
trainer.fit(model, ckpt_path=latest())
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.callbacks import Checkpoint

from .api import Job, current
from .common.exits import STOPPED
from .random_state import random_state, restore_random_state

#: In a checkpoint: Lightning's own file (with sharded strategies a directory).
FILE = "lightning.ckpt"


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

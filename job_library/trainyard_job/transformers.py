"""Makes the checkpoints of Hugging Face's Trainer whole.

from trainyard_job.transformers import TrainyardCallback, latest

trainer = Trainer(..., callbacks=[TrainyardCallback()])
trainer.train(resume_from_checkpoint=latest())
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from .api import Job, current
from .checkpoints.checkpoint import MANIFEST, Saved
from .checkpoints.saving import link_file
from .common.exits import STOPPED
from .common.files import write_json

#: In the run's directory: the checkpoints that lay in an `output_dir` before the run's first
#: attempt, which are whole as far as anybody knows.
_BEFORE = "trainer-checkpoints.json"
_NAME = re.compile(rf"^{PREFIX_CHECKPOINT_DIR}-(\d+)$")


def latest() -> str | None:
    """The newest whole checkpoint for `resume_from_checkpoint`; None if there is none.

    Collective: call it on every rank, after TrainingArguments are made.
    """
    saved = _newest(current())
    return str(saved.path) if saved else None


class TrainyardCallback(TrainerCallback):  # type: ignore[misc]
    """Each checkpoint that the Trainer saves, at `save_steps` or otherwise, becomes one of the run:
    with the files of all ranks, their random states among them, or not at all.

    It also saves when Trainyard asks for it. When the job should stop, it saves, ends the training
    and exits with STOPPED after `on_train_end`, so that nobody takes the run for complete;
    `exit_when_stopped=False` lets `train()` return instead. Progress and what the Trainer logs are
    reported.

    `output_dir` must be on the shared file system, or on each node's own with `save_on_each_node`.
    A checkpoint there that is not whole gets another name at the start ("torn-..."), so that
    `resume_from_checkpoint=True` finds only whole ones. The newest whole one is put there if it is
    missing. The files there and those of the run's checkpoint are the same ones (hard links): do
    not change them.
    """

    def __init__(self, *, exit_when_stopped: bool = True) -> None:
        self._exit_when_stopped = exit_when_stopped
        self._loss: float | None = None
        self._saved_step = -1

    def on_init_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        job = current()
        job.keep_own_interval()
        saved, output = _newest(job), Path(args.output_dir).absolute()
        job.meet().announce("the Trainer's directory", lambda: _tidy(job, output, saved))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        job = current()
        job.report(state.global_step, self._loss, {})
        if job.due(state.global_step):
            control.should_save = True
        if job.should_stop():
            control.should_save = control.should_training_stop = True
            control.should_evaluate = False  # the time to stop is short
        return control

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """The end of an epoch comes also after a stop."""
        if self._saved_step == state.global_step:
            control.should_save = False
        if current().should_stop():
            control.should_evaluate = False
        return control

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_hyper_param_search:  # each trial has a directory and steps of its own
            return
        name = f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
        current().adopt(state.global_step, Path(args.output_dir, name))
        self._saved_step = state.global_step
        _forget()

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any
    ) -> None:
        numbers = {
            name: value
            for name, value in (logs or {}).items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        self._loss = numbers.pop("loss", self._loss)
        current().report(state.global_step, self._loss, numbers)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        job = current()
        job.flush()
        if self._exit_when_stopped and job.should_stop() and state.global_step < state.max_steps:
            if job.place.rank == 0:
                print(f"asked to stop: stopped after step {state.global_step}", flush=True)
            sys.exit(STOPPED)


#: Every byte is read to find it: once for the tidying and the resuming together.
_found: tuple[Job, Saved | None] | None = None


def _newest(job: Job) -> Saved | None:
    global _found  # noqa: PLW0603 - as the job itself
    if _found is None or _found[0] is not job:
        _found = (job, job.latest())
    return _found[1]


def _forget() -> None:
    global _found  # noqa: PLW0603
    _found = None


def _tidy(job: Job, output: Path, saved: Saved | None) -> None:
    """Leave no checkpoint in `output` that a resumed training would take and that is not whole."""
    before = _before(job.attempt.run_dir / _BEFORE, output)
    for path in _checkpoints(output):
        step = int(path.name.rpartition("-")[2])
        if path.name not in before and (saved is None or step > saved.step):
            _set_aside(path)
    if saved is not None:
        _put_there(saved, output / f"{PREFIX_CHECKPOINT_DIR}-{saved.step}")


def _checkpoints(output: Path) -> list[Path]:
    if not output.is_dir():
        return []
    return [path for path in sorted(output.iterdir()) if _NAME.match(path.name) and path.is_dir()]


def _before(file: Path, output: Path) -> list[str]:
    """Names that lay in `output` when a callback first saw it."""
    known = json.loads(file.read_text()) if file.exists() else {}
    if str(output) not in known:
        known[str(output)] = [path.name for path in _checkpoints(output)]
        write_json(file, known)
    return list(known[str(output)])


def _set_aside(path: Path) -> None:
    number = 1
    while (aside := path.with_name(f"torn-{path.name}-{number}")).exists():
        number += 1
    print(f"trainyard: {path} is not whole; it is {aside.name} now", file=sys.stderr, flush=True)
    path.rename(aside)


def _put_there(saved: Saved, path: Path) -> None:
    """Give the Trainer the newest whole checkpoint under its own name for it."""
    names = [
        (entry["path"], entry["bytes"])
        for entry in json.loads((saved.path / MANIFEST).read_bytes())["files"]
    ]
    if path.exists():
        if all(_size(path / name) == size for name, size in names):
            return
        _set_aside(path)
    part = path.with_name(f".{path.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    for name, _ in names:
        (part / name).parent.mkdir(parents=True, exist_ok=True)
        link_file(saved.path / name, part / name)
    os.rename(part, path)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1

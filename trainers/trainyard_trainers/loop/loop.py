"""The one loop that all trainers share: steps, agreement of the ranks, checkpoints, signals,
progress, and how it may end.
"""

from __future__ import annotations

import math
import os
import pickle
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from trainyard_job.checkpoints.checkpoint import Saved
from trainyard_job.common.attempt import Attempt
from trainyard_job.common.exits import (
    CHECKPOINT_FAILED,
    COMPLETE,
    MISCONFIGURED,
    STOPPED,
    CheckpointFailed,
    Fenced,
)
from trainyard_job.common.exits import FENCED as FENCED_CODE
from trainyard_job.common.progress import Progress, StepReport
from trainyard_job.common.signals import Requests

from ..checkpoints.checkpointer import Checkpointer, Files
from ..checkpoints.writer import Writer
from ..common import seeds
from ..common.agreement import FAILED, FENCED, LOSS, SAVE, SLOTS, STOP, Agreement, exchange
from ..common.bounds import Bound, Bounded, at_least
from ..common.config import ConfigError
from ..common.failure import record_exception
from ..common.meaning import Meaning
from ..common.packages import PackageMissing
from ..common.precompile import STEPS as COMPILE_STEPS
from ..common.precompile import compile_only
from . import configuration, writable
from .allocator import keep_freed_memory
from .best import Best
from .curves import DIRECTORY, Curves
from .trackers.feeding import Ending, Trackers


class NotFinite(Exception):
    """The loss or the gradient is NaN or infinite; the message says where and what came before."""


UP_TO_A_DAY = Bound("must be from 0 to 86400, a day", ge=0, le=86400)
A_SECOND_TO_A_DAY = Bound("must be from 1 to 86400, a day", ge=1, le=86400)


@dataclass(frozen=True)
class LoopConfig(Bounded):
    """What every trainer's configuration has besides its own; times in seconds."""

    steps: Annotated[int, at_least(1), Meaning("optimizer steps of the run", free=True)] = 200
    seed: Annotated[
        int,
        Bound("must be from 0 to 2**62 - 1", ge=0, lt=2**62),
        Meaning("of the first weights, the order of the samples, and dropout"),
    ] = 1
    log_every: Annotated[
        int, at_least(1), Meaning("steps between two lines with step, loss and speed", free=True)
    ] = 10
    step_seconds: Annotated[
        float, UP_TO_A_DAY, Meaning("a pause after each step, in seconds", free=True)
    ] = 0.0
    deterministic: Annotated[
        bool, Meaning("only kernels whose results never differ; slower", free=True)
    ] = False
    asynchronous: Annotated[
        bool, Meaning("save beside training; false: within the step, in less memory", free=True)
    ] = True
    peer_seconds: Annotated[
        float,
        A_SECOND_TO_A_DAY,
        Meaning("so long a rank waits for the others in a step before it gives up", free=True),
    ] = 300.0
    save_seconds: Annotated[
        float,
        A_SECOND_TO_A_DAY,
        Meaning(
            "so long a rank waits until the others have found, read or written a checkpoint or the "
            "final model",
            free=True,
        ),
    ] = 3600.0
    changed_configuration: Annotated[
        Literal["stop", "accept"],
        Meaning(
            "what a run does that resumes with another batch size, learning rate or the like than "
            "the checkpoint was trained with: stop and say what changed, or go on with its own",
            free=True,
        ),
    ] = "stop"


class Turn:
    """One step as the loop hands it to a task. `votes` are this rank's votes, SLOTS numbers, and
    `vote` the same as a tensor; a task that adds them up over all ranks in its own reduction, with
    the loss in slot LOSS, puts the sums into `sums` and saves the job a collective a step."""

    def __init__(self, votes: list[float], before_update: Callable[[], None]) -> None:
        self.votes = votes
        self.before_update = before_update
        self.sums: Tensor | Sequence[float] | None = None
        self._vote: Tensor | None = None

    @property
    def vote(self) -> Tensor:
        """The votes as a tensor, which is made at the first use: a task with a reduction of its own
        may be done in less time than that takes.
        """
        if self._vote is None:
            self._vote = torch.tensor(self.votes, dtype=torch.float64)
        return self._vote


class StepResult(NamedTuple):
    """What a step did on this rank: the mean loss, samples or tokens it trained on, and seconds it
    waited for data.

    `gradient_norm` is that of the mean gradient, the same on all ranks; a step where it is not
    finite has ruined the weights. `validation_loss`: of held-out data after this step, the same on
    all ranks; None if there was no validation. `seconds_at_peak`: so long this rank's operations
    would take at the highest speed of its device; 0 if that is not known.
    """

    loss: float | Tensor
    samples: int
    data_seconds: float = 0.0
    gradient_norm: float | Tensor = 0.0
    validation_loss: float | None = None
    seconds_at_peak: float = 0.0


class Task(Protocol):
    """What a trainer brings to the loop."""

    def train_step(self, turn: Turn) -> StepResult:
        """Train on the next batch; `turn.before_update()` must be called before any weight or
        optimizer state changes.
        """

    def files(self) -> Files:
        """This rank's files of a checkpoint of the present state; live tensors, which the
        checkpointer copies.
        """

    def restore(self, saved: Saved) -> None:
        """Take the state of a checkpoint that verifies, whatever number of ranks wrote it."""

    def final_files(self) -> Files:
        """This rank's files of the final model."""


def main(
    make_task: Callable[[], Task],
    config: LoopConfig,
    *,
    backend: Callable[[], str] = lambda: "gloo",
) -> int:
    """Run a trainer from its start to its end; returns the exit code (exits.py).

    `make_task` is called once the process group of `backend()` is there. Threads, devices and
    process groups must not exist before.
    """
    try:
        return _attempt(make_task, config, backend)
    except (
        ConfigError,
        PackageMissing,
    ) as error:  # found out from the data, the checkpoint or the machine
        return _ended(error, MISCONFIGURED)
    except Fenced as error:
        print(f"trainyard: {error}", file=sys.stderr, flush=True)
        return FENCED_CODE
    except CheckpointFailed as error:
        return _ended(error, CHECKPOINT_FAILED)


def _ended(error: Exception, code: int) -> int:
    print(f"trainyard: {error}", file=sys.stderr, flush=True)
    record_exception(error)
    return code


def _attempt(make_task: Callable[[], Task], config: LoopConfig, backend: Callable[[], str]) -> int:
    attempt = Attempt.from_environment()
    requests = Requests.install()
    writing = Writer(attempt) if config.asynchronous and not compile_only() else None
    keep_freed_memory()
    _threads()
    seeds.deterministic(config.deterministic)
    # A rank whose peer vanished without a word fails after this long; the agent is much faster,
    # this is the last resort.
    options: dict[str, Any] = {"timeout": timedelta(seconds=config.peer_seconds)}
    if "RANK" not in os.environ:  # no launcher: one rank, which meets nobody
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="1")
        options |= {"rank": 0, "world_size": 1}
        options["store"] = dist.HashStore()  # type: ignore[attr-defined]
    dist.init_process_group(backend(), **options)
    try:
        if compile_only():
            return show_graphs(make_task())
        saving = _saving_group(config)
        writable.check(attempt, dist.get_rank(), saving)
        checkpoints = Checkpointer(attempt, writing, saving)
        return train(make_task(), config, attempt, requests, checkpoints)
    finally:
        if writing is not None:
            writing.close()
        dist.destroy_process_group()


def _saving_group(config: LoopConfig) -> dist.ProcessGroup | None:
    """In which the ranks wait for each other's files: that takes longer than any step."""
    if dist.get_world_size() == 1:
        return None
    made = dist.new_group(backend="gloo", timeout=timedelta(seconds=config.save_seconds))
    assert isinstance(made, dist.ProcessGroup)  # every rank is in it
    return made


def show_graphs(task: Task) -> int:
    """A few steps for neuron_parallel_compile to see their graphs.

    Nothing is computed in that mode, so nothing is saved or reported.
    """
    for _ in range(COMPILE_STEPS):
        task.train_step(Turn([0.0] * SLOTS, lambda: None))
    return COMPLETE


def _threads() -> None:
    """The ranks of a node share its cores, unless OMP_NUM_THREADS says otherwise."""
    if "OMP_NUM_THREADS" not in os.environ:
        ranks = int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // ranks))


def train(
    task: Task, config: LoopConfig, attempt: Attempt, requests: Requests, checkpoints: Checkpointer
) -> int:
    """Train to the last step; returns the exit code.

    Raises Fenced, CheckpointFailed and NotFinite.
    """
    run = _Run(task, config, attempt, requests, checkpoints)
    ending: Ending = "FAILED"
    try:
        code = run.to_its_end()
        ending = "FINISHED" if code == COMPLETE else "KILLED"
    finally:
        if run.trackers is not None:
            run.trackers.end(ending)
    return code


class _Run:
    """An attempt's steps on one rank."""

    def __init__(
        self,
        task: Task,
        config: LoopConfig,
        attempt: Attempt,
        requests: Requests,
        checkpoints: Checkpointer,
    ) -> None:
        self.task, self.config, self.requests, self.checkpoints = (
            task,
            config,
            requests,
            checkpoints,
        )
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.best = Best(attempt, checkpoints)
        saved = checkpoints.newest()
        if saved is not None:
            self._restore(saved)
        self.step = saved.step if saved else 0
        self.losses: list[float] = []  # the last few
        self.progress: Progress | None = None
        self.curves: Curves | None = None
        self.trackers: Trackers | None = None
        if self.rank == 0:
            before = self.step if saved else None
            self.curves = Curves(attempt.run_dir / DIRECTORY, resumed_from=before)
            self.trackers = Trackers(attempt.run_id)
            self.progress = Progress(
                attempt.attempt_dir, world_size=self.world_size, resumed_from=before
            )
            print(
                f"training resumes after step {self.step}" if saved else "training starts fresh",
                flush=True,
            )
            if self.step > config.steps:
                print(
                    f"trainyard: there is nothing left to train: steps is {config.steps}, and the "
                    "checkpoint has more",
                    file=sys.stderr,
                    flush=True,
                )

    def _restore(self, saved: Saved) -> None:
        _restore(self.task, self.best, saved)
        accept = self.config.changed_configuration == "accept"
        if changed := configuration.check(self.config, saved.path, accept=accept):
            self._say(f"the configuration changed: {changed}")

    def to_its_end(self) -> int:
        while self.step < self.config.steps:
            agreed, is_best = self._next()
            over = self.step == self.config.steps or agreed.stop
            self.checkpoints.settle(agreed.failed, agreed.fenced)
            if over or agreed.save or is_best:
                self.best.before_save(self.rank)
                self.checkpoints.save(self.step, self._with_ours(self.task.files()), must=over)
            if agreed.stop and self.step < self.config.steps:
                self._say(f"asked to stop: stopped after step {self.step}")
                return STOPPED
            if self.config.step_seconds:
                time.sleep(self.config.step_seconds)
        final = self.checkpoints.finish(self.step, self._with_ours(self.task.final_files()))
        self._say(f"training is complete after step {self.step}: {final}")
        if self.best.name:
            self._say(f"validation: {self.best}")
        return COMPLETE

    def _with_ours(self, files: Files) -> Files:
        """The first rank also writes what the run was given, and what its validations showed."""
        if self.rank:
            return files
        return {
            **files,
            configuration.NAME: configuration.content(self.config),
            **self.best.files(),
        }

    def _next(self) -> tuple[Agreement, bool]:
        """One step, agreed on and reported; and whether its validation was the best so far."""
        began = time.perf_counter()
        turn = Turn(self._votes(), self.checkpoints.before_update)
        result = self.task.train_step(turn)
        self.step += 1
        agreed = _agree(turn, result, self.world_size)
        if not (math.isfinite(agreed.loss) and math.isfinite(result.gradient_norm)):
            self.checkpoints.wait()  # what was saved before is good
            raise NotFinite(_report(self.step, result, self.losses))
        self.losses = [*self.losses[-4:], agreed.loss]
        if self.progress is not None:
            self._tell(self.progress, agreed, result, time.perf_counter() - began)
        if result.validation_loss is None:
            return agreed, False
        self._say(f"validation after step {self.step}: loss {result.validation_loss:.6f}")
        return agreed, self.best.validated(self.step, result.validation_loss)

    def _votes(self) -> list[float]:
        votes = [0.0] * SLOTS
        asked, self.requests.checkpoint = self.requests.checkpoint, False
        votes[FAILED], votes[FENCED] = self.checkpoints.flags()
        votes[STOP] = float(self.requests.stop)
        votes[SAVE] = float(asked or (self.rank == 0 and self.checkpoints.due(self.step + 1)))
        return votes

    def _tell(
        self, progress: Progress, agreed: Agreement, result: StepResult, seconds: float
    ) -> None:
        over = self.step == self.config.steps or agreed.stop
        samples = result.samples * self.world_size
        more = _more(result, seconds)
        progress.report(
            StepReport(self.step, agreed.loss, samples, seconds, result.data_seconds, more),
            last=over,
        )
        drawn = {"train/loss": agreed.loss, "train/samplesPerSecond": samples / seconds}
        if self.curves is not None:
            self.curves.add(self.step, drawn, last=over)
        if self.trackers is not None:
            self.trackers.add(self.step, drawn, last=over)
        if over or self.step % self.config.log_every == 0:
            used = f" {more['utilisation']:.1%} of peak" if "utilisation" in more else ""
            print(
                f"step {self.step} loss {agreed.loss:.6f} {samples / seconds:.0f}/s{used}",
                flush=True,
            )

    def _say(self, text: str) -> None:
        if self.rank == 0:
            print(text, flush=True)


def _more(result: StepResult, seconds: float) -> dict[str, float]:
    """What not every step of every trainer has, for a line of steps.jsonl."""
    more: dict[str, float] = {}
    if result.validation_loss is not None and math.isfinite(result.validation_loss):
        more["validationLoss"] = result.validation_loss
    if result.seconds_at_peak:
        more["utilisation"] = round(result.seconds_at_peak / seconds, 4)
    return more


def _restore(task: Task, best: Best, saved: Saved) -> None:
    """Give the task its state. Raises ConfigError for a checkpoint of another job, and
    CheckpointFailed for one that the task cannot read.
    """
    try:
        task.restore(saved)
        best.restore(saved.path)
    except ConfigError:
        raise
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        FileNotFoundError,
        pickle.UnpicklingError,
    ) as error:
        raise CheckpointFailed(
            f"{saved.path} has the sums of its manifest, but its content cannot be resumed from "
            f"({type(error).__name__}: {error}); "
            "if another trainer wrote it, give another run directory (TRAINYARD_RUN_DIR); if it "
            "was changed, move it away, and the one "
            "before it is taken"
        ) from error


def _agree(turn: Turn, result: StepResult, world_size: int) -> Agreement:
    """The ranks' votes added up.

    Signals and clocks differ from rank to rank; without this two ranks could save at different
    steps and wait for each other forever.
    """
    if turn.sums is None:
        turn.vote[LOSS] = float(result.loss)
        dist.all_reduce(turn.vote)
        turn.sums = turn.vote
    return Agreement.of(turn.sums, world_size)


def _report(step: int, result: StepResult, last_losses: list[float]) -> str:
    """The error's text with every rank's own loss, the same on all ranks."""
    losses = ", ".join(
        f"rank {rank}: {text}" for rank, text in enumerate(exchange(str(float(result.loss))))
    )
    before = ", ".join(f"{loss:.6g}" for loss in last_losses) or "none in this attempt"
    what = "loss" if "nan" in losses or "inf" in losses else "gradient"
    return (
        f"the {what} of step {step} is not finite (losses: {losses}); the losses before it: "
        f"{before}. Nothing was saved after that. "
        "Lower the learning rate, clip gradients, or look at the samples of this step; then resume "
        "from an earlier checkpoint"
    )

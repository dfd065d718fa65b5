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
from typing import Annotated, Any, NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from ..checkpoints.checkpoint import Saved
from ..checkpoints.checkpointer import Checkpointer, Files
from ..checkpoints.writer import Writer
from ..common import seeds
from ..common.agreement import FAILED, FENCED, LOSS, SAVE, SLOTS, STOP, Agreement, exchange
from ..common.attempt import Attempt
from ..common.bounds import Bound, Bounded, at_least
from ..common.config import ConfigError
from ..common.exits import (
    CHECKPOINT_FAILED,
    COMPLETE,
    MISCONFIGURED,
    STOPPED,
    CheckpointFailed,
    Fenced,
)
from ..common.exits import FENCED as FENCED_CODE
from ..common.failure import record_exception
from ..common.packages import PackageMissing
from ..common.precompile import STEPS as COMPILE_STEPS
from ..common.precompile import compile_only
from ..common.progress import Progress, StepReport
from ..common.signals import Requests
from .allocator import keep_freed_memory


class NotFinite(Exception):
    """The loss or the gradient is NaN or infinite; the message says where and what came before."""


@dataclass(frozen=True)
class LoopConfig(Bounded):
    """What every trainer's configuration has besides its own; times in seconds."""

    steps: Annotated[int, at_least(1)] = 200
    seed: Annotated[int, Bound("must be from 0 to 2**62 - 1", ge=0, lt=2**62)] = 1
    log_every: Annotated[int, at_least(1)] = 10
    step_seconds: Annotated[float, Bound("must be from 0 to 86400, a day", ge=0, le=86400)] = 0.0
    deterministic: bool = False
    asynchronous: bool = True


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
    finite has ruined the weights.
    """

    loss: float | Tensor
    samples: int
    data_seconds: float = 0.0
    gradient_norm: float | Tensor = 0.0


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
    options: dict[str, Any] = {"timeout": timedelta(minutes=5)}
    if "RANK" not in os.environ:  # no launcher: one rank, which meets nobody
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="1")
        options |= {"rank": 0, "world_size": 1}
        options["store"] = dist.HashStore()  # type: ignore[attr-defined]
    dist.init_process_group(backend(), **options)
    try:
        if compile_only():
            return show_graphs(make_task())
        return train(make_task(), config, attempt, requests, Checkpointer(attempt, writing))
    finally:
        if writing is not None:
            writing.close()
        dist.destroy_process_group()


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
    return _Run(task, config, attempt, requests, checkpoints).to_its_end()


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
        saved = checkpoints.newest()
        if saved is not None:
            _restore(task, saved)
        self.step = saved.step if saved else 0
        self.losses: list[float] = []  # the last few
        self.progress: Progress | None = None
        if self.rank == 0:
            self.progress = Progress(
                attempt.attempt_dir,
                world_size=self.world_size,
                resumed_from=self.step if saved else None,
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

    def to_its_end(self) -> int:
        while self.step < self.config.steps:
            agreed = self._next()
            over = self.step == self.config.steps or agreed.stop
            self.checkpoints.settle(agreed.failed, agreed.fenced)
            if over or agreed.save:
                self.checkpoints.save(self.step, self.task.files(), must=over)
            if agreed.stop and self.step < self.config.steps:
                self._say(f"asked to stop: stopped after step {self.step}")
                return STOPPED
            if self.config.step_seconds:
                time.sleep(self.config.step_seconds)
        final = self.checkpoints.finish(self.step, self.task.final_files())
        self._say(f"training is complete after step {self.step}: {final}")
        return COMPLETE

    def _next(self) -> Agreement:
        """One step, agreed on and reported."""
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
        return agreed

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
        progress.report(
            StepReport(self.step, agreed.loss, samples, seconds, result.data_seconds), last=over
        )
        if over or self.step % self.config.log_every == 0:
            print(f"step {self.step} loss {agreed.loss:.6f} {samples / seconds:.0f}/s", flush=True)

    def _say(self, text: str) -> None:
        if self.rank == 0:
            print(text, flush=True)


def _restore(task: Task, saved: Saved) -> None:
    """Give the task its state. Raises ConfigError for a checkpoint of another job, and
    CheckpointFailed for one that the task cannot read.
    """
    try:
        task.restore(saved)
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

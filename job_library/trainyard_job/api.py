"""What a training program says to Trainyard, and hears from it: the functions that it imports.

Every rank of the job makes the same calls in the same order; `report` and `output_dir` are free of
that. Outside Trainyard the same calls work on a run of their own below ./trainyard-run.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import operator
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from .checkpoints import checkpoint as core
from .checkpoints import saving
from .checkpoints.checkpoint import Saved
from .checkpoints.interval import Interval
from .checkpoints.saving import Fill, Target
from .common import places
from .common.attempt import Attempt
from .common.curves import MOST_NAMES, Curves
from .common.exits import CheckpointFailed, ConfigError
from .common.progress import Progress
from .common.signals import Requests
from .ranks import courier, process_group
from .ranks.meeting import WAIT_SECONDS, Meeting
from .ranks.place import Place

#: About so often the first rank says whether to save or to stop; between two such steps no rank
#: waits for it.
_ROUND_SECONDS = 1.0
_MOST_STEPS = 32
#: A worker process of a killed job's data loader may hold the attempt's lock a few seconds more.
_LOCK_SECONDS = 15.0
_STOP = "stop"


class _Round(NamedTuple):
    """What holds for all ranks after a step; `steps`: to the next time that it is asked."""

    save: bool = False
    stop: bool = False
    steps: int = 1


class Job:
    """This process's part in one attempt. `current` makes it at the first call."""

    def __init__(self, attempt: Attempt, place: Place, *, wait_seconds: float = WAIT_SECONDS):
        self.attempt = attempt
        self.place = place
        self.pid = os.getpid()
        self._meeting = _meeting(attempt, place, wait_seconds)
        self._joined = False
        self._lock: int | None = None
        self._requests = _requests()
        self._interval = Interval.of(attempt)
        self._rejected: frozenset[Path] = frozenset()
        self._resumed_from: int | None = None
        self._progress: Progress | None = None
        self._curves: Curves | None = None
        self._tried_step = 0
        self._saved_at = time.monotonic()
        self._calls = self._next_round = 0
        self._round_at, self._round_steps = time.monotonic(), 1
        self._stopping = False

    # -- coming together --------------------------------------------------------------------------
    def meet(self) -> Meeting:
        """The meeting of all ranks. Raises Fenced and CheckpointFailed."""
        if not self._joined:
            self._check_place()
            self._meeting.join(self._prepare)
            self._joined = True
        return self._meeting

    def _prepare(self) -> None:
        """On the first rank, before any rank does anything."""
        self.attempt.checkpoint_dir.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.attempt)
        core.clean_leftovers(self.attempt)

    def _check_place(self) -> None:
        """A program that asks before its process group is there would be one rank alone."""
        found = Place.find()
        if found != self.place:
            raise ConfigError(
                f"this process was rank {self.place.rank} of {self.place.world_size} when it first "
                f"called trainyard_job, and is rank {found.rank} of {found.world_size} now: call "
                "it after the process group is made, or set RANK and WORLD_SIZE before"
            )

    # -- checkpoints ------------------------------------------------------------------------------
    def latest(self) -> Saved | None:
        """See `latest` of the module."""
        found = self.meet().announce("the newest checkpoint", self._find)
        saved = Saved(**{**found, "path": Path(found["path"])}) if found else None
        self._resumed_from = saved.step if saved else None
        self._tried_step = saved.step if saved else 0
        self._saved_at = time.monotonic()
        return saved

    def _find(self) -> dict[str, Any] | None:
        saved, rejected = core.find_newest(self.attempt.checkpoint_dir, run_id=self.attempt.run_id)
        self._rejected = frozenset(rejected)
        return {**asdict(saved), "path": str(saved.path)} if saved else None

    @contextlib.contextmanager
    def saving(
        self, path: Path, step: int, *, shared: bool = False, fill: Fill | None = None
    ) -> Iterator[Path]:
        """A save of this step that will lie at `path`."""
        target, began = Target(path, step, self._rejected, shared), time.monotonic()
        self._tried_step, self._saved_at = step, began
        with saving.saving(self.attempt, self.meet(), target, fill) as directory:
            yield directory
        self._interval.stalled(time.monotonic() - began)
        self._interval.written(time.monotonic() - began)

    def checkpoint(
        self, step: int, *, shared: bool = False, fill: Fill | None = None
    ) -> contextlib.AbstractContextManager[Path]:
        """See `checkpoint` of the module."""
        number = _step(step)
        name = core.checkpoint_name(number, self.attempt.number)
        return self.saving(self.attempt.checkpoint_dir / name, number, shared=shared, fill=fill)

    def adopt(self, step: int, source: Path) -> None:
        """See `adopt` of the module."""
        fill = partial(_link_what_is_there, source)
        with self.checkpoint(step, shared=True, fill=fill) as directory:
            fill(directory)  # of a rank on whose node `source` is another directory

    def keep_own_interval(self) -> None:
        """Of a framework with an interval of its own: ours counts where the run's spec gives it."""
        names = ("TRAINYARD_CHECKPOINT_EVERY_SECONDS", "TRAINYARD_CHECKPOINT_EVERY_STEPS")
        if not any(os.environ.get(name) for name in names):
            self._interval = Interval(None)

    # -- what the outside asks --------------------------------------------------------------------
    def due(self, step: int) -> bool:
        """See `due` of the module."""
        number = _step(step)
        every = self.attempt.every_steps
        by_steps = every is not None and number // every > self._tried_step // every
        said = self._ask(f"step {number}", number)
        return by_steps or said.save

    def should_stop(self) -> bool:
        """See `should_stop` of the module."""
        if not self._calls:  # the program never asks `due`, which brings the answer along
            stopping = self._ask("whether to stop", None).stop
            self._calls = 0
            return stopping
        return self._stopping or (self.place.world_size == 1 and self._requests.stop)

    def listen(self) -> None:
        """Take the signals over again, from a framework that took them."""
        before, self._requests = self._requests, _requests()
        self._requests.take(before)

    def _ask(self, what: str, step: int | None) -> _Round:
        self._calls += 1
        if self._requests.stop and self.place.rank:
            self.meet().mark(_STOP)
        if step is not None and self._calls < self._next_round:
            return _Round(stop=self._stopping)
        said = _Round(*self.meet().announce(what, lambda: self._decide(step)))
        self._next_round = self._calls + said.steps
        self._stopping = self._stopping or said.stop
        return said

    def _decide(self, step: int | None) -> _Round:
        """On the first rank."""
        now, requests = time.monotonic(), self._requests
        stop = requests.stop or self._meeting.is_marked(_STOP)
        seconds = self._interval.seconds()
        by_time = seconds is not None and now - self._saved_at >= seconds
        save = step is not None and (stop or requests.checkpoint or by_time)
        if save:
            requests.saved()
        each = (now - self._round_at) / self._round_steps
        most = min(2 * self._round_steps, _MOST_STEPS)
        steps = 1 if self.place.world_size == 1 else max(1, min(int(_ROUND_SECONDS / each), most))
        self._round_at, self._round_steps = now, steps
        return _Round(save, stop, steps)

    # -- what the program says --------------------------------------------------------------------
    def report(self, step: int, loss: float | None, metrics: Mapping[str, Any]) -> None:
        """See `report` of the module."""
        number, values = _step(step), _numbers(metrics)
        heard = None if loss is None else _number("loss", loss)
        if self.place.rank:
            return
        if self._progress is None or self._curves is None:
            self._progress = Progress(
                self.attempt.attempt_dir,
                world_size=self.place.world_size,
                resumed_from=self._resumed_from,
            )
            self._curves = Curves(self.attempt.attempt_dir / places.METRICS)
            atexit.register(self.flush)
        self._progress.step(number, heard)
        if values:
            self._curves.add(number, values)

    def flush(self) -> None:
        """Write what is reported and not written yet."""
        if self._progress is not None and self._curves is not None and self.pid == os.getpid():
            self._progress.flush()
            self._curves.flush()


def _meeting(attempt: Attempt, place: Place, wait_seconds: float) -> Meeting:
    """In the attempt's directory, or at the courier's where the hosts share none."""
    directory, board = attempt.attempt_dir / "meeting", None
    if place.world_size > 1 and (found := courier.current()) is not None:
        board = courier.CourierBoard(found, place.rank, courier.carrier(attempt.run_dir))
    return Meeting(directory, place, wait_seconds=wait_seconds, board=board)


def _requests() -> Requests:
    """Only the main thread may take signals over; elsewhere nothing is asked."""
    try:
        return Requests.install()
    except ValueError:
        text = "trainyard: called first outside the main thread, so SIGTERM is not seen"
        print(text, file=sys.stderr, flush=True)
        return Requests()


def _locked(attempt: Attempt) -> int | None:
    """The attempt's lock, for which a killed job's processes are waited for."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return core.lock(attempt)
        except CheckpointFailed:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def _link_what_is_there(source: Path, directory: Path) -> None:
    if source.is_dir():
        saving.link_tree(source, directory)


def _step(step: int) -> int:
    """Raises ValueError for what is no step."""
    try:
        number = operator.index(step)
    except TypeError:
        number = -1
    if not 0 <= number < 10**12:
        raise ValueError(f"step: {step!r} is no step; give a whole number of 0 or more")
    return number


def _number(name: str, value: Any) -> float:
    """Also of a tensor with one element. Raises ValueError."""
    detach = getattr(value, "detach", None)  # torch warns of a number that has a gradient
    try:
        return float(detach() if callable(detach) else value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise ValueError(f"{name}: {value!r:.100} is not a number") from None


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    if len(metrics) > MOST_NAMES:
        raise ValueError(f"metrics: {len(metrics)} names are too many; give {MOST_NAMES} or less")
    return {name: _number(name, value) for name, value in metrics.items()}


_job: Job | None = None
process_group.leave_at_exit()


def current() -> Job:
    """This process's job; a forked process is another rank and has its own. Raises ConfigError."""
    global _job  # noqa: PLW0603 - a process is in one job
    if _job is None or _job.pid != os.getpid():
        _job = Job(Attempt.from_environment(), Place.find(), wait_seconds=_wait_seconds())
    return _job


def _wait_seconds() -> float:
    text = os.environ.get("TRAINYARD_RANKS_WAIT_SECONDS") or str(WAIT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ConfigError(
            f"TRAINYARD_RANKS_WAIT_SECONDS: '{text}' is not a number above 0; unset it or give one"
        )
    return seconds


# -- the functions that programs import ------------------------------------------------------------
def latest() -> Saved | None:
    """The newest whole checkpoint of the run, of whatever attempt; None if there is none.

    Every byte of it is verified, and all ranks get the same one. `path` is its directory, with all
    ranks' files; `step` is what `checkpoint` was given; `attempt` and `world_size` are of those
    who wrote it. A checkpoint that is not whole is named on stderr, skipped and kept.

    Collective. Raises CheckpointFailed (there are checkpoints, but none can be read; the ranks do
    not find each other) and Fenced (a newer attempt runs).
    """
    return current().latest()


def checkpoint(step: int, *, shared: bool = False) -> contextlib.AbstractContextManager[Path]:
    """A `with` block whose files become the checkpoint of this step: of all ranks, or of none.

    The block gets an empty directory (a Path) for the files of this rank; other ranks have
    directories of their own. A rank may write nothing. At the end of the block the files are
    hashed and synced. When all ranks are there, the first one joins the directories, writes the
    manifest, renames the whole into place and removes older checkpoints but
    TRAINYARD_CHECKPOINT_KEEP (3). The block returns on each rank when that is done.

    `shared=True`: all ranks write into one directory. Two ranks must not write one file then.

    Collective. Raises ValueError (`step`), CheckpointFailed on every rank alike (a rank could not
    write, raised in its block, ended, or did not come in time; two ranks wrote different files of
    one name; no rank wrote one) and Fenced. What the block itself raises goes on. In all cases
    nothing of this step is committed, and older checkpoints are as they were.
    """
    return current().checkpoint(step, shared=shared)


def adopt(step: int, source: str | os.PathLike[str]) -> None:
    """Make a checkpoint of a directory that a framework has written: the same as `checkpoint`.

    Call it on every rank when that rank has written. The files get a second name in the
    checkpoint (a hard link, or a copy where the file system has no links), so `source` may be
    removed, and must not be written to again. Where each node has a `source` of its own, the files
    of all are joined. Collective. Raises as `checkpoint` does.
    """
    current().adopt(step, Path(source))


@contextlib.contextmanager
def final(step: int) -> Iterator[Path]:
    """As `checkpoint`, but for the final model, which is exported as `final/` and never removed by
    newer checkpoints. A second one replaces it. Collective.
    """
    job = current()
    with job.saving(job.attempt.run_dir / places.FINAL, _step(step)) as directory:
        yield directory


def due(step: int) -> bool:
    """Whether to save after this step: the same on every rank.

    It is after TRAINYARD_CHECKPOINT_EVERY_STEPS or _SECONDS (60 s if neither is set), when
    somebody asks for it (SIGUSR2), and when the job should stop. Call it once after each step. The
    first rank decides about once a second. At these steps the others wait for it. Collective.
    Raises CheckpointFailed, Fenced and ValueError.
    """
    return current().due(step)


def should_stop() -> bool:
    """Whether the job was asked to stop (SIGTERM): save, and end with `sys.exit(STOPPED)`.

    All ranks get the same answer at the same step, also if only one of them had the signal. It is
    that of the last `due`; a program that never calls `due` calls this once after each step, on
    every rank, and then each call waits for the first rank.
    """
    return current().should_stop()


def report(step: int, loss: float | None = None, **metrics: Any) -> None:
    """Say that `step` is finished, with its loss and other numbers (or tensors of one element).

    Call it on every rank, or on the first only: the others' reports are dropped. The step and the
    loss are for `trainyard run show`, and so that a job that hangs is noticed. Metrics are kept as
    curves in `metrics.jsonl` of the attempt. A report that cannot be written is said on stderr, and
    training goes on. Raises ValueError for what is not a number.
    """
    current().report(step, loss, metrics)


def output_dir() -> Path:
    """The directory for the program's results: the same at each attempt, and exported at the end.

    It is there when this returns. Raises OSError.
    """
    found = os.environ.get("TRAINYARD_OUTPUT_DIR")
    path = Path(found) if found else current().attempt.run_dir / places.OUTPUT
    path.mkdir(parents=True, exist_ok=True)
    return path.absolute()

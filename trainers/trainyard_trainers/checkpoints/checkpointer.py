"""Checkpoints of a whole job: staged and written beside training, committed once, and known to all
ranks at the same step.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from trainyard_job.checkpoints import checkpoint, interval
from trainyard_job.checkpoints.checkpoint import Saved
from trainyard_job.common import places
from trainyard_job.common.attempt import Attempt
from trainyard_job.common.exits import CheckpointFailed, Fenced

from ..common import seeds
from ..common.agreement import exchange
from . import writer
from .staging import Staged
from .writer import Answer, Part, Writer, WriterDied

#: So many saves may fail in a row (a full disk may be freed by `keep`) before training stops rather
#: than run on unprotected.
FAILED_SAVES_LIMIT = 3

#: Name in the checkpoint -> nested dicts and lists of tensors and plain values (written by
#: torch.save), or bytes (written as they are).
Files = Mapping[str, object]


def rank_file(rank: int) -> str:
    """Name of the file with a rank's own state: its random state and its position in the data."""
    return f"rank-{rank:05d}.pt"


def load(saved: Saved, name: str) -> Any:
    """Read one file of a checkpoint; tensors and plain data only, no code."""
    return torch.load(saved.path / name, map_location="cpu", weights_only=True)


def load_own(saved: Saved, seed: int) -> Any:
    """Load this rank's own state (`rank_file`) and restore its random state; every trainer's
    `restore` uses it.

    On another number of ranks no rank has a file of its own: each takes that of rank 0 for the
    position in the data, draws new random numbers, and rank 0 says so.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if saved.world_size == world_size:
        own = load(saved, rank_file(rank))
        seeds.restore_random_state(own["random"])
        return own
    seeds.seed_rank(seed + saved.step, rank)
    if rank == 0:
        print(other_ranks(saved.world_size, world_size), file=sys.stderr, flush=True)
    return load(saved, rank_file(0))


def other_ranks(before: int, now: int) -> str:
    return (
        "trainyard: the run resumes on another number of ranks, "
        f"{now} instead of {before}: each draws new random numbers"
    )


@dataclass
class _Flight:
    """A save on its way.

    `word` is the newest state that this rank's writer has reported of it, "" before the first.
    """

    part: Part
    began: float
    staged: Staged | None = None
    word: str = ""
    reason: str = ""

    @property
    def over(self) -> bool:
        """Whether this rank's writer has nothing more to report."""
        return self.word not in ("", "written") or (
            self.word == "written" and not self.part.commits
        )


class Checkpointer:
    """The checkpoints of one attempt. `save`, `finish`, `newest` and `settle` are collective: all
    ranks call them at the same step.

    With a `writer` a save costs the step a copy of the state to host memory, and its outcome is
    known some steps later (`flags`, `settle`); without one `save` returns when the checkpoint is
    committed. `group`: in which the ranks wait for each other's files, for as long as it allows.
    """

    def __init__(
        self,
        attempt: Attempt,
        writing: Writer | None = None,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        self._attempt = attempt
        self._group = group
        self._kept: frozenset[Path] = frozenset()
        self._writer = writing
        self._beside = (
            writing is not None
        )  # the same on all ranks, also when one of them lost its writer
        self._rank = dist.get_rank()
        self._world_size = dist.get_world_size()
        self._rejected: frozenset[Path] = frozenset()
        self._serial = 0
        self._lock: int | None = None
        self._flight: _Flight | None = None
        self._last_step: int | None = None  # saved, or on its way
        self._tried_step = 0
        self._last_at = time.monotonic()
        self._failures = 0
        self._every = interval.Interval.of(attempt)

    # -- finding ----------------------------------------------------------------------------------
    def newest(self) -> Saved | None:
        """The newest whole checkpoint, the same on every rank.

        Raises Fenced or CheckpointFailed on every rank alike.
        """
        found: dict[str, Any] = {}
        if self._rank == 0:
            found = self._find()
        answer = exchange(found, self._group)[0]
        self._raise(answer["word"], answer["reason"])
        self._serial = answer["serial"]
        saved = (
            Saved(Path(answer["path"]), answer["step"], answer["attempt"], answer["world_size"])
            if "path" in answer
            else None
        )
        self._last_step = saved.step if saved else None
        self._tried_step = self._last_step or 0
        self._last_at = time.monotonic()
        return saved

    def _find(self) -> dict[str, Any]:
        try:
            self._attempt.checkpoint_dir.mkdir(parents=True, exist_ok=True)
            self._lock = checkpoint.lock(self._attempt)
            checkpoint.clean_leftovers(self._attempt)
            saved, rejected = checkpoint.find_newest(
                self._attempt.checkpoint_dir, run_id=self._attempt.run_id
            )
        except Fenced as error:
            return {"word": "fenced", "reason": str(error)}
        except (CheckpointFailed, OSError) as error:
            return {"word": "failed", "reason": str(error)}
        self._rejected = frozenset(rejected)
        place = {**asdict(saved), "path": str(saved.path)} if saved else {}
        # A person may start the attempt again by hand. What its earlier process left of its saves
        # is never taken for one of these.
        return {"word": "committed", "reason": "", "serial": secrets.randbits(48), **place}

    def keep(self, paths: frozenset[Path]) -> None:
        """From the next save on, leave these out when older checkpoints are removed."""
        self._kept = paths

    # -- saving -----------------------------------------------------------------------------------
    def due(self, step: int) -> bool:
        """Whether a checkpoint is due after `step`, by this rank's clock: ask only rank 0, and send
        its answer to the others.
        """
        if self._flight is not None and not self._flight.over:
            return False  # the last one is still being written
        every = self._attempt.every_steps
        by_steps = every is not None and step // every > self._tried_step // every
        seconds = self._every.seconds()
        return by_steps or (seconds is not None and time.monotonic() - self._last_at >= seconds)

    def save(self, step: int, files: Files, *, must: bool = False) -> None:
        """Begin to save this step; does nothing if that is done already. With `must` it returns
        when the checkpoint is committed.

        A failure (disk full) is said on stderr and training goes on, up to FAILED_SAVES_LIMIT times
        in a row; with `must` it is raised at once. Raises Fenced and CheckpointFailed on every rank
        alike.
        """
        if step == self._last_step:
            if must and self._flight is not None:
                self._land(must=True)
            return
        if self._flight is not None:
            self._land(must=False)
        began = time.monotonic()
        target = self._attempt.checkpoint_dir / checkpoint.checkpoint_name(
            step, self._attempt.number
        )
        self._take_off(target, step, files)
        if must or not self._beside:
            self._land(must)
        self._every.stalled(time.monotonic() - began)

    def finish(self, step: int, files: Files) -> Path:
        """Commit the final model as <run dir>/final. Raises Fenced and CheckpointFailed."""
        if self._flight is not None:
            self._land(must=False)
        target = self._attempt.run_dir / places.FINAL
        self._take_off(target, step, files)
        self._land(must=True)
        return target

    def before_update(self) -> None:
        """Call it before the weights change: it returns when the save that began has copied
        them.
        """
        if self._flight is not None and self._flight.staged is not None:
            began = time.monotonic()
            self._wait_staged(self._flight)
            self._every.stalled(time.monotonic() - began)

    def flags(self) -> tuple[float, float]:
        """(failed, fenced) of this rank's save, 0 or 1 each: sum them over all ranks and give the
        sums to `settle`.
        """
        if self._flight is None:
            return 0.0, 0.0
        self._listen(self._flight, 0.0)
        return float(self._flight.word == "failed"), float(self._flight.word == "fenced")

    def settle(self, failed: float, fenced: float) -> None:
        """Act on what the writers of all ranks reported.

        Raises Fenced and CheckpointFailed on every rank alike.
        """
        if failed or fenced:
            self._land(must=False)

    def wait(self) -> None:
        """Wait until the save that is on its way, if any, is committed or has failed."""
        if self._flight is not None:
            self._land(must=False)

    def close(self) -> None:
        """End the writing process."""
        if self._writer is not None:
            self._writer.close()

    # -- one save's way ---------------------------------------------------------------------------
    def _take_off(self, target: Path, step: int, files: Files) -> None:
        self._serial += 1
        part = Part(
            target,
            step,
            self._serial,
            self._rank,
            self._world_size,
            dict(files),
            self._rejected | self._kept,
        )
        flight = self._flight = _Flight(part, time.monotonic())
        self._last_step, self._tried_step, self._last_at = step, step, flight.began
        if self._writer is None:
            self._note(flight, writer.write(self._attempt, part))
            return
        try:
            self._writer.until_free()
            flight.staged = Staged(self._writer.memory, part.files)
        except WriterDied:
            self._without_writer(flight)
        except OSError as error:
            self._note(
                flight,
                Answer(
                    part.serial,
                    "failed",
                    f"rank {self._rank}: no memory to stage the checkpoint: {error}",
                ),
            )
        else:
            flight.staged.start(
                self._sender(self._writer, replace(part, files=flight.staged.skeleton))
            )

    @staticmethod
    def _sender(writing: Writer, part: Part) -> Callable[[], None]:
        def send() -> None:
            with contextlib.suppress(
                WriterDied
            ):  # seen, and helped, where its answer is waited for
                writing.send(part)

        return send

    def _wait_staged(self, flight: _Flight) -> None:
        staged, flight.staged = flight.staged, None
        try:
            if staged is not None:
                staged.wait()
        except (OSError, RuntimeError) as error:
            self._note(flight, Answer(flight.part.serial, "failed", f"rank {self._rank}: {error}"))

    def _note(self, flight: _Flight, answer: Answer) -> None:
        if answer.serial != flight.part.serial:
            return  # an answer about an older part that was given up
        flight.word, flight.reason = answer.word, answer.reason
        if answer.word == "committed":
            self._every.written(time.monotonic() - flight.began)

    def _listen(self, flight: _Flight, timeout: float | None) -> None:
        """Take in what the writer says of this flight; with timeout None until it has said
        `written` or worse.
        """
        while self._writer is not None and not (flight.over or (timeout is None and flight.word)):
            try:
                answer = self._writer.answer(timeout)
            except WriterDied:
                self._without_writer(flight)
                return
            if answer is None:
                return
            self._note(flight, answer)

    def _without_writer(self, flight: _Flight) -> None:
        """Go on after the writing process was killed: this save fails, and this process writes the
        next ones by itself.
        """
        print(
            "trainyard: the writing process is gone; training waits for its checkpoints from now "
            "on",
            file=sys.stderr,
            flush=True,
        )
        self._writer = None
        self._note(
            flight,
            Answer(
                flight.part.serial, "failed", f"rank {self._rank}: its writing process was killed"
            ),
        )

    def _land(self, must: bool) -> None:
        """Wait for the end of the save that is on its way, and learn it on all ranks."""
        flight = self._flight
        assert flight is not None
        self._wait_staged(flight)
        self._listen(flight, None)
        said = exchange([flight.word, flight.reason, self._writer is not None], self._group)
        word, reason = next(
            ((word, reason) for word, reason, _ in said if word in ("failed", "fenced")),
            ("committed", ""),
        )
        self._beside = all(has_writer for _, _, has_writer in said)
        if self._rank == 0:
            if word != "committed":
                self._clear(flight)
            else:
                self._commit(flight)
            word, reason = (flight.word, flight.reason) if word == "committed" else (word, reason)
        word, reason = exchange([word, reason], self._group)[0]
        self._flight = None
        self._landed(flight.part.step, word, reason, must)

    def _commit(self, flight: _Flight) -> None:
        """On rank 0: every part is written."""
        if self._writer is None and flight.word == "written":
            self._note(flight, writer.commit(self._attempt, flight.part, lambda: False))
        while not flight.over:
            flight.word = ""
            self._listen(flight, None)

    def _clear(self, flight: _Flight) -> None:
        """On rank 0: some part will not come, and no rank is writing any more."""
        if self._writer is not None and not flight.over:
            with contextlib.suppress(WriterDied):
                self._writer.give_up(flight.part.serial)
        else:
            shutil.rmtree(
                checkpoint.temporary_directory(flight.part.target, self._attempt),
                ignore_errors=True,
            )

    def _landed(self, step: int, word: str, reason: str, must: bool) -> None:
        if word == "committed":
            self._failures = 0
            return
        self._last_step = None
        self._failures += 1
        if self._rank == 0:
            print(
                f"trainyard: checkpoint of step {step} was not committed: {reason}",
                file=sys.stderr,
                flush=True,
            )
        if word == "fenced" or must or self._failures >= FAILED_SAVES_LIMIT:
            self._raise(word, reason)

    @staticmethod
    def _raise(word: str, reason: str) -> None:
        if word == "fenced":
            raise Fenced(reason)
        if word == "failed":
            raise CheckpointFailed(reason)

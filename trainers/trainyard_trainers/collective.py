"""Checkpoints of a whole job: every rank writes its own files, rank 0 commits, and all ranks learn the outcome together."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import torch.distributed as dist

from . import checkpoint
from .attempt import Attempt
from .checkpoint import FileEntry, Saved, Writer
from .exits import CheckpointFailed, Fenced

#: So many saves may fail in a row (a full disk may be freed by `keep`) before training stops rather than run on unprotected.
FAILED_SAVES_LIMIT = 3


class Outcome(NamedTuple):
    """How a collective act ended, the same on every rank."""

    word: Literal["committed", "failed", "fenced"]
    reason: str = ""


def rank_file(rank: int) -> str:
    """Name of the file in which a rank keeps what is its own: random state, data position."""
    return f"rank-{rank:05d}.pt"


def torch_writer(content: object) -> Writer:
    """A writer of `content` by torch.save; the same content gives the same bytes, because no file name gets into them."""
    return lambda stream: torch.save(content, stream)


def exchange(value: Any) -> list[Any]:
    """Every rank's JSON value, in the order of ranks. torch's own object collectives need numpy, which a node may not have."""
    text = bytearray(json.dumps(value).encode())
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, torch.tensor([len(text)], dtype=torch.int64))
    longest = int(max(int(size) for size in sizes))
    parts = [torch.zeros(longest, dtype=torch.uint8) for _ in sizes]
    dist.all_gather(parts, torch.frombuffer(text.ljust(longest), dtype=torch.uint8))
    return [json.loads(bytes(part.tolist())) for part in parts]


class Checkpoints:
    """The checkpoints of one attempt. Every method but `due` is collective: all ranks call it with the same step."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._rank = dist.get_rank()
        self._world_size = dist.get_world_size()
        self._rejected: frozenset[Path] = frozenset()
        self._last_step: int | None = None
        self._last_at = time.monotonic()
        self._failures = 0

    def newest(self) -> Saved | None:
        """The newest whole checkpoint, the same on every rank. Raises Fenced on every rank if a newer attempt exists."""
        found: dict[str, Any] = {}
        if self._rank == 0:
            found = self._find()
        told = exchange(found)[0]
        self._raise(Outcome(*told["outcome"]))
        saved = Saved(Path(told["path"]), told["step"], told["attempt"], told["world_size"]) if "path" in told else None
        self._last_step = saved.step if saved else None
        self._last_at = time.monotonic()
        return saved

    def _find(self) -> dict[str, Any]:
        try:
            self._attempt.checkpoint_dir.mkdir(parents=True, exist_ok=True)
            checkpoint.clean_leftovers(self._attempt)
            saved, rejected = checkpoint.find_newest(self._attempt.checkpoint_dir)
        except Fenced as error:
            return {"outcome": Outcome("fenced", str(error))}
        except (CheckpointFailed, OSError) as error:
            return {"outcome": Outcome("failed", str(error))}
        self._rejected = frozenset(rejected)
        place = {**asdict(saved), "path": str(saved.path)} if saved else {}
        return {"outcome": Outcome("committed"), **place}

    def due(self, step: int) -> bool:
        """Whether a checkpoint is due after `step`, by this rank's clock: ask rank 0 only, and tell the others."""
        attempt = self._attempt
        by_steps = attempt.every_steps is not None and step % attempt.every_steps == 0
        by_time = attempt.every_seconds is not None and time.monotonic() - self._last_at >= attempt.every_seconds
        return by_steps or by_time

    def save(self, step: int, files: Mapping[str, Writer], *, must: bool = False) -> bool:
        """Commit a checkpoint of `step` out of the files of all ranks; does nothing if that step is committed already.

        A failure (disk full) is said on stderr and training goes on, up to FAILED_SAVES_LIMIT times in a row; with `must` it is raised at
        once. Raises Fenced and CheckpointFailed on every rank alike.
        """
        if step == self._last_step:
            return True
        target = self._attempt.checkpoint_dir / checkpoint.checkpoint_name(step, self._attempt.number)
        outcome = self._commit(target, step, files)
        self._last_at = time.monotonic()
        if outcome.word == "committed":
            self._last_step, self._failures = step, 0
            if self._rank == 0:
                checkpoint.prune(self._attempt.checkpoint_dir, self._attempt.keep, self._attempt, self._rejected)
            return True
        self._failures += 1
        if self._rank == 0:
            print(f"trainyard: checkpoint of step {step} was not committed: {outcome.reason}", file=sys.stderr, flush=True)
        if outcome.word == "fenced" or must or self._failures >= FAILED_SAVES_LIMIT:
            self._raise(outcome)
        return False

    def finish(self, step: int, files: Mapping[str, Writer]) -> Path:
        """Commit the final model as <run dir>/final out of rank 0's files. Raises Fenced and CheckpointFailed."""
        target = self._attempt.run_dir / "final"
        self._raise(self._commit(target, step, files))
        return target

    def _commit(self, target: Path, step: int, files: Mapping[str, Writer]) -> Outcome:
        temporary = checkpoint.temporary_directory(target, self._attempt)
        mine: list[dict[str, Any]] | str
        try:
            temporary.mkdir(parents=True, exist_ok=True)
            mine = [asdict(checkpoint.write_file(temporary, name, writer)) for name, writer in files.items()]
        except (OSError, RuntimeError) as error:  # torch.save reports a failed write as RuntimeError
            mine = f"rank {self._rank}: {error}"
        reports = exchange(mine)  # also the barrier: every file of every rank is on disk now
        outcome = Outcome("committed")
        if self._rank == 0:
            outcome = self._commit_on_rank_0(target, step, reports)
            if outcome.word != "committed":
                shutil.rmtree(temporary, ignore_errors=True)
        return Outcome(*exchange(outcome)[0])

    def _commit_on_rank_0(self, target: Path, step: int, reports: list[Any]) -> Outcome:
        broken = [report for report in reports if isinstance(report, str)]
        if broken:
            return Outcome("failed", "; ".join(broken))
        try:
            checkpoint.commit(self._attempt, target, step, self._world_size, [FileEntry(**entry) for report in reports for entry in report])
        except Fenced as error:
            return Outcome("fenced", str(error))
        except (CheckpointFailed, OSError) as error:
            return Outcome("failed", str(error))
        return Outcome("committed")

    @staticmethod
    def _raise(outcome: Outcome) -> None:
        if outcome.word == "fenced":
            raise Fenced(outcome.reason)
        if outcome.word == "failed":
            raise CheckpointFailed(outcome.reason)


def load(saved: Saved, name: str) -> Any:
    """Read one file of a checkpoint; tensors and plain data only, no code."""
    return torch.load(saved.path / name, map_location="cpu", weights_only=True)

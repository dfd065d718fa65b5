"""A directory that takes no files is found at the start, and not by the first save, when hours of
training are at stake.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import torch.distributed as dist

from trainyard_job.common.attempt import Attempt
from trainyard_job.common.exits import CheckpointFailed

from ..common.agreement import exchange

#: What does not pass by itself. A full disk may be freed by what the first save prunes.
_LASTING = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EINVAL})


def check(attempt: Attempt, rank: int, group: dist.ProcessGroup | None = None) -> None:
    """Collective. Raises CheckpointFailed on every rank alike if one cannot write where checkpoints
    and the final model go.
    """
    reasons = exchange(_reason(attempt, rank), group)
    failed = [f"rank {number}: {reason}" for number, reason in enumerate(reasons) if reason]
    if failed:
        raise CheckpointFailed(
            f"checkpoints cannot be written: {'; '.join(failed[:3])}; make the directory writable "
            "for the user of the job, or give another TRAINYARD_CHECKPOINT_DIR"
        )


def _reason(attempt: Attempt, rank: int) -> str:
    try:
        _try(dict.fromkeys([attempt.checkpoint_dir, attempt.run_dir]), attempt, rank)
    except OSError as error:
        if error.errno in _LASTING:
            return f"{error.filename or attempt.checkpoint_dir}: {error.strerror}"
    return ""


def _try(directories: Iterable[Path], attempt: Attempt, rank: int) -> None:
    for directory in directories:
        directory.mkdir(parents=True, exist_ok=True)
        # A name that the next start clears away if this process dies here.
        probe = directory / f".tmp-probe-{rank}-attempt-{attempt.number}"
        try:
            probe.mkdir(exist_ok=True)
            with open(probe / "file", "wb") as stream:
                os.write(stream.fileno(), b"1")
        finally:
            shutil.rmtree(probe, ignore_errors=True)

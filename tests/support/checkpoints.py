"""A checkpoint of one process, as the writers and the commit of a job make it together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trainyard_job.checkpoints import checkpoint
from trainyard_job.checkpoints.checkpoint import Writer
from trainyard_job.common.attempt import Attempt


def save(attempt: Attempt, step: int, files: Mapping[str, Writer]) -> Path:
    """Write and commit; returns the checkpoint's directory. Raises Fenced and OSError."""
    target = attempt.checkpoint_dir / checkpoint.checkpoint_name(step, attempt.number)
    temporary = checkpoint.temporary_directory(target, attempt)
    entries = [checkpoint.write_file(temporary, name, writer) for name, writer in files.items()]
    checkpoint.commit(attempt, target, step, 1, entries)
    return target

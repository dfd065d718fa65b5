"""One look at one checkpoint, and what was found."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from trainyard_agent.checkpoints.kept import kept_at
from trainyard_agent.checkpoints.names import order, step_of
from trainyard_agent.checkpoints.presence import no_directory
from trainyard_agent.checkpoints.verifying import NotWhole, verify
from trainyard_contracts import places


@dataclass(frozen=True)
class Finding:
    """One checkpoint looked at; `path` is relative to the run's directory."""

    path: str
    step: int
    attempt: int
    status: Literal["whole", "rejected", "unreadable"]
    signature: str
    reason: str = ""
    bytes: int = 0
    files: int = 0
    committed_at: datetime | None = None
    source: str = ""
    counted: bool = False


def signature(directory: Path) -> str:
    """Changes when any file of the checkpoint is replaced, written to, or removed.

    '' if the directory is gone.
    """
    parts = []
    try:
        for root, _, names in os.walk(directory):
            for name in sorted(names):
                path = os.path.join(root, name)
                at = os.stat(path)
                relative = os.path.relpath(path, directory)
                parts.append(f"{relative}:{at.st_size}:{at.st_mtime_ns}:{at.st_ino}")
    except OSError:
        return ""
    return "|".join(parts) if parts or directory.is_dir() else ""


def look(path: Path, name: str, run_id: str, now: str) -> Finding | None:
    """Verify one checkpoint; None if it was removed meanwhile."""
    step, attempt = step_of(name), order(name)[1]
    try:
        manifest, digests = verify(path, run_id)
        committed = datetime.fromtimestamp(
            (path / places.CHECKPOINT_MANIFEST).stat().st_mtime, timezone.utc
        )
    except NotWhole as error:
        if no_directory(path):
            return None
        found = Finding(name, step, attempt, "rejected", now, str(error))
        return replace(found, counted=_is_counted(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        return Finding(name, step, attempt, "unreadable", now, error.strerror or str(error))
    if manifest.step != step:
        return Finding(
            name, step, attempt, "rejected", now, f"its manifest is of step {manifest.step}"
        )
    size = sum(item.size for item in digests.values())
    found = Finding(name, step, attempt, "whole", now, "", size, len(digests), committed)
    copied = manifest.watched
    return replace(found, source=copied.path, counted=copied.counted) if copied else found


def _is_counted(path: Path) -> bool:
    """Whether it is a copy whose step is not known, as far as that can be read."""
    try:
        copy = kept_at(path)
    except OSError:
        return False
    return copy is not None and copy.source.counted

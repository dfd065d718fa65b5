"""Tells a job that Slurm calls running though its launchers have ended: a step's daemon was killed, and srun waits for it for ever."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence
from pathlib import Path

from trainyard_agent.evidence import Launch

#: srun needs a moment to end after the last launcher, and to kill the others after one that failed.
GRACE_SECONDS = 5.0
#: Reports that are read each second at most, however many nodes a job has.
REPORTS_PER_SECOND = 100
#: In the attempt's directory: we ended this job because it was hollow, so its launchers say how it went, and not Slurm.
_MARK = "hollow"


def is_hollow(nodes: Collection[str], launches: Sequence[Launch]) -> bool:
    """All launchers have ended, or one failed, at which srun (--kill-on-bad-exit) ends the others."""
    ended = [launch for launch in launches if launch.ended is not None and launch.node in nodes]
    failed = any(launch.kind not in (None, "stopped") for launch in ended)
    return bool(nodes) and (failed or {launch.node for launch in ended} == set(nodes))


def seconds_between_looks(nodes: Collection[str]) -> float:
    return max(GRACE_SECONDS / 2, len(nodes) / REPORTS_PER_SECOND)


def mark(directory: Path) -> None:
    """Before the job is ended, so that an agent that is restarted just then does not take our scancel for a person's."""
    with contextlib.suppress(OSError):
        (directory / _MARK).touch()


def is_marked(directory: Path) -> bool:
    """Not, as far as anybody can say, where that cannot be read."""
    return os.path.exists(directory / _MARK)

"""Ends a node's part of the job when Slurm's step daemon is gone: nothing else would end it, and
nobody receives its output any more.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping

from ..common.failure import Failure

_POLL_SECONDS = 0.5
#: Between the request to stop and the end by force: time for a checkpoint at the next step
#: boundary, as in a cancelled job.
STOP_SECONDS = 20.0
ERROR = "Slurm's daemon of the job's step (slurmstepd) was killed on this node"


class StepDaemon:
    """slurmstepd is the parent of what it started; once it is dead, another process is."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._pid = os.getppid() if environment.get("SLURM_STEP_ID") else None

    @property
    def gone(self) -> bool:
        return self._pid is not None and os.getppid() != self._pid

    def watch(self, child: int) -> None:
        """In a thread: once the daemon is gone, ask the job's process to stop, and end it by force
        if it does not.
        """
        threading.Thread(target=self._watch, args=(child,), daemon=True).start()

    def _watch(self, child: int) -> None:
        while not self.gone:
            time.sleep(_POLL_SECONDS)
        _leave_its_pipes()
        for number, pause in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 0.0)):
            try:
                os.kill(child, number)
            except ProcessLookupError:
                return
            time.sleep(pause)

    def blamed_for(self, end: Failure) -> Failure:
        """The end, blamed on the daemon's death if it is dead: failures such as a broken pipe, or
        the end that we asked for, are its consequences.

        A part that ended well, or that the kernel killed for want of memory, keeps its own end.
        """
        if not self.gone or end.kind in (None, "out-of-memory"):
            return end
        _leave_its_pipes()
        return Failure(128 + signal.SIGKILL, int(signal.SIGKILL), error=ERROR)


def _leave_its_pipes() -> None:
    """Print to nowhere: no process reads the pipes, so a write would raise BrokenPipeError."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)

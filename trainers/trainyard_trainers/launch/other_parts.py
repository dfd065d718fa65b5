"""Ends this node's part of a job when another node's part has failed: the job is over, and the next
attempt waits for this part's end.

Slurm asks the other parts to end (SIGTERM) and kills them only after its KillWait. That is half a
minute, and a setting for all jobs: other people's jobs save in that time. A rank that waits for its
peers in a collective does not react to SIGTERM, so its launcher ends it sooner.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from trainyard_job.common import places

from ..common.exceptions import ENVIRONMENT
from ..common.failure import Failure

#: Between the request to end and the end by force, once another part has failed.
PATIENCE_SECONDS = 2.0
#: So long a part that misses something (a module, the script) waits for the others' ends: if all
#: nodes miss it, another attempt is of no use.
SAME_SECONDS = 3.0
_POLL_SECONDS = 0.1
_MARK = "part-failed"


def tell(attempt_dir: Path, end: Failure) -> None:
    """Before this part ends, so that the mark is there when Slurm asks the others to end.

    One that was only stopped has not failed.
    """
    if end.kind not in (None, "stopped"):
        with contextlib.suppress(OSError):
            (attempt_dir / _MARK).touch()


def let_others_say_the_same(attempt_dir: Path, end: Failure, others: Iterable[str]) -> None:
    """After this part's report, and before its end makes Slurm end the other parts."""
    if end.lasting != ENVIRONMENT:
        return
    pending, deadline = list(others), time.monotonic() + SAME_SECONDS
    while pending and time.monotonic() < deadline:
        if _has_ended(attempt_dir / places.launch_report(pending[-1])):
            pending.pop()
        else:
            time.sleep(_POLL_SECONDS)


def _has_ended(report: Path) -> bool:
    try:
        return "ended" in json.loads(report.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False


class OtherParts:
    """The other parts of the attempt; it looks at none before this part is asked to end."""

    def __init__(self, attempt_dir: Path, child: int) -> None:
        self._mark, self._child = attempt_dir / _MARK, child
        self._watches = self._ended_it = False

    def watch(self) -> None:
        """From now on, in a thread: once another part has failed, this one has PATIENCE_SECONDS
        left.
        """
        if not self._watches:
            self._watches = True
            threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._mark.exists():
            time.sleep(_POLL_SECONDS)
        time.sleep(PATIENCE_SECONDS)
        self._ended_it = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)

    def blamed_for(self, end: Failure) -> Failure:
        """The end, blamed on the failed part if this part was killed because of it."""
        if not self._ended_it or end.signal != signal.SIGKILL:
            return end
        return Failure(
            128 + signal.SIGKILL,
            error="another rank failed first, and this one did not end when it was asked to",
        )

"""Ends a job that Slurm calls running although nothing of it runs any more.

That happens if a step's daemon was killed: srun waits for it for ever. Its launchers say that they
have ended; or they were killed as well, and the agents of all its nodes count no process of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path

from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.forced_end import ForcedEnd
from trainyard_agent.jobs.traces import read_launches
from trainyard_agent.nodes.liveness import quiet_needed
from trainyard_agent.nodes.node_table import NodeTable
from trainyard_contracts.launch_report import LaunchReport

log = logging.getLogger(__name__)

#: How many processes of an attempt's step run on these nodes; None if a node does not answer.
CountAlive = Callable[[Collection[str], str, int], Awaitable["int | None"]]

#: A job that runs on for so long after its last launcher ended, or one failed, is ended: srun needs
#: a moment to end, and to kill the others.
GRACE_SECONDS = 5.0
#: The nodes of a job that does not step are asked for its processes so often.
COUNT_SECONDS = 10.0
# Reports that are read each second at most, however many nodes a job has.
REPORTS_PER_SECOND = 100
#: In the attempt's directory: we ended this job because it was hollow. Its launchers then say how
#: it went, and not Slurm.
_MARK = "hollow"


class HollowJobs:
    """Looks at the launchers' reports of a running job now and then."""

    def __init__(self, table: NodeTable, forced_end: ForcedEnd, alive: CountAlive) -> None:
        self._table, self._forced_end, self._alive = table, forced_end, alive

    async def look_inside(self, attempt: Attempt) -> None:
        """End a job of which nothing runs any more; a node in doubt would explain more."""
        now = time.monotonic()
        if attempt.state != "running":
            return
        if now - attempt.looked_at < seconds_between_looks(attempt.nodes):
            return
        attempt.looked_at = now
        launches = await asyncio.to_thread(read_launches, attempt.directory)
        if self._in_doubt(attempt.nodes) or not (
            is_hollow(attempt.nodes, launches) or await self._is_empty(attempt, launches)
        ):
            attempt.hollow_since = None
            return
        attempt.hollow_since = attempt.hollow_since or now
        if now - attempt.hollow_since >= GRACE_SECONDS:
            await self._end(attempt)

    async def _is_empty(self, attempt: Attempt, launches: Sequence[LaunchReport]) -> bool:
        """It began on every node, does not step, and no node has a process of it."""
        now = time.monotonic()
        if not began(attempt.nodes, launches) or not is_quiet(attempt, now):
            return False
        if attempt.hollow_since is None and now - attempt.counted_at < COUNT_SECONDS:
            return False
        attempt.counted_at = now
        return await self._alive(attempt.nodes, attempt.run_id, attempt.number) == 0

    def _in_doubt(self, nodes: Collection[str]) -> bool:
        return any(self._table.suspicious(name) or self._table.lost(name) for name in nodes)

    async def _end(self, attempt: Attempt) -> None:
        """Asked again at each look until Slurm has ended it."""
        words = "%s: nothing of it runs any more, but job %s does not end: it is ended"
        log.warning(words, attempt, attempt.job_id)
        attempt.hollow = True
        await asyncio.to_thread(mark, attempt.directory)
        await self._forced_end.try_once(attempt)
        attempt.wake.set()


def is_hollow(nodes: Collection[str], launches: Sequence[LaunchReport]) -> bool:
    """All launchers have ended, or one failed: srun (--kill-on-bad-exit) then ends the others."""
    ended = [launch for launch in launches if launch.ended is not None and launch.node in nodes]
    failed = any(launch.kind not in (None, "stopped") for launch in ended)
    return bool(nodes) and (failed or {launch.node for launch in ended} == set(nodes))


def began(nodes: Collection[str], launches: Sequence[LaunchReport]) -> bool:
    """Each node's launcher said its first word: a step that is still being started has none."""
    return bool(nodes) and {launch.node for launch in launches} >= set(nodes)


def is_quiet(attempt: Attempt, now: float) -> bool:
    """No step for longer than a step takes; nobody knows of a program that says none."""
    if attempt.stepped_at is None:
        return True
    return now - attempt.stepped_at >= max(GRACE_SECONDS, quiet_needed(attempt.step_seconds))


def seconds_between_looks(nodes: Collection[str]) -> float:
    return max(GRACE_SECONDS / 2, len(nodes) / REPORTS_PER_SECOND)


def mark(directory: Path) -> None:
    """Write the mark, before the job is ended.

    Without it an agent that is restarted just then would take our scancel for a person's.
    """
    with contextlib.suppress(OSError):
        (directory / _MARK).touch()


def is_marked(directory: Path) -> bool:
    """Whether the mark is there; False also where the directory cannot be read."""
    return os.path.exists(directory / _MARK)

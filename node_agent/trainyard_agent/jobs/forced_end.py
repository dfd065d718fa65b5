"""Ends at once a job that no longer does anything; Slurm alone would wait for KillWait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from trainyard_agent.host.background import Background
from trainyard_agent.host.slurm import Slurm, SlurmError
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts

log = logging.getLogger(__name__)

#: SIGKILL to all that a run's attempts up to this one have on the nodes that answer.
Kill = Callable[[str, int, list[str]], Awaitable[Any]]
# Between two tries of a scancel that Slurm did not take.
AGAIN_SECONDS = 1.0


class ForcedEnd:
    """Kills what runs on the nodes, then has Slurm end the job."""

    def __init__(self, slurm: Slurm, attempts: Attempts, kill: Kill) -> None:
        self._slurm, self._attempts, self._kill = slurm, attempts, kill
        self._background = Background()

    def restarted(self, node: str, off_at: float) -> None:
        """A node was off and is back: the jobs that ran there before `off_at` are gone.

        Slurm takes half a minute to notice that for the batch host, and never for another node.
        """
        for attempt in self._attempts.active():
            if cut_off(attempt, node, off_at):
                log.warning("%s was restarted under %s: its job is ended", node, attempt)
                attempt.cut_off_from = node
                self._background.spawn(self._end(attempt))

    async def _end(self, attempt: Attempt) -> None:
        while not attempt.done.is_set():
            if await self.try_once(attempt):
                attempt.wake.set()
                return
            await asyncio.sleep(AGAIN_SECONDS)

    async def try_once(self, attempt: Attempt) -> bool:
        """Whether Slurm took it."""
        await self._kill(attempt.run_id, attempt.number, [attempt.job_id])
        try:
            await self._slurm.cancel(attempt.job_id)
        except SlurmError as error:
            log.warning("job %s cannot be ended yet: %s", attempt.job_id, error)
            return False
        return True


def cut_off(attempt: Attempt, node: str, off_at: float) -> bool:
    """The attempt ran on the node when it went off, and was not yet found to be cut off."""
    return (
        attempt.state == "running"
        and node in attempt.nodes
        and attempt.running_since < off_at
        and not attempt.cut_off_from
    )

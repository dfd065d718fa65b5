"""Reports why a job waits in Slurm's queue, and for which jobs: the source of AttemptQueued."""

from __future__ import annotations

import logging
import time

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.slurm import Slurm, SlurmError
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.slurm_queue import ahead, parse_queue
from trainyard_agent.nodes.node_table import NodeTable
from trainyard_contracts.attempt_events import AttemptQueued, JobAhead

log = logging.getLogger(__name__)

#: A job that Slurm has not started by then waits for something.
QUEUED_SECONDS = 3.0
#: Slurm is asked this often at most who is in the way of a job that waits.
ASK_QUEUE_SECONDS = 10.0
#: The timeline tells this often at most who is in the way of a job that waits.
TELL_QUEUE_SECONDS = 60.0


class QueueWatch:
    """Asks for the queue on behalf of a job that waits."""

    def __init__(
        self, slurm: Slurm, reporter: Reporter, attempts: Attempts, table: NodeTable
    ) -> None:
        self._slurm, self._reporter = slurm, reporter
        self._attempts, self._table = attempts, table

    async def look_at(self, attempt: Attempt) -> None:
        """Report why the job waits, and report again when other jobs are in its way."""
        now = time.monotonic()
        if now - attempt.followed_since < QUEUED_SECONDS:
            return
        if now - attempt.queue_asked_at < ASK_QUEUE_SECONDS:
            return
        attempt.queue_asked_at = now
        try:
            queue = parse_queue(await self._slurm.queue())
        except SlurmError as error:
            log.warning("for whom job %s waits cannot be read now: %s", attempt.job_id, error)
            return
        in_the_way = ahead(attempt.job_id, queue, self._table.slurm_nodes)
        if worth_telling(attempt, in_the_way, now):
            self._tell(attempt, in_the_way, now)

    def _tell(self, attempt: Attempt, in_the_way: list[JobAhead], now: float) -> None:
        reason = attempt.pending_reason
        event = self._reporter.make(
            AttemptQueued,
            run_id=attempt.run_id,
            attempt=attempt.number,
            job_id=attempt.job_id,
            reason=reason,
            ahead=in_the_way,
        )
        self._attempts.save(attempt, event)
        attempt.queue_told, attempt.queue_told_at = event, now
        log.info("%s: job %s waits (%s)", attempt, attempt.job_id, reason)


def worth_telling(attempt: Attempt, in_the_way: list[JobAhead], now: float) -> bool:
    """Whether this was not reported already, and nothing else of this job a moment ago."""
    last, reason = attempt.queue_told, attempt.pending_reason
    same = last is not None and last.ahead == in_the_way and last.reason == reason
    return not same and now - attempt.queue_told_at >= TELL_QUEUE_SECONDS

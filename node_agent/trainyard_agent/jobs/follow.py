"""Follows every active attempt from its submission to its end: the source of AttemptStarted."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.background import Background
from trainyard_agent.host.slurm import Slurm, SlurmError
from trainyard_agent.host.slurm_jobs import Job
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempt_files import job_name
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.ending import Confirm, Ending
from trainyard_agent.jobs.hollow_jobs import HollowJobs
from trainyard_agent.jobs.powered_down import PoweredDown
from trainyard_agent.jobs.progress import ProgressReader
from trainyard_agent.jobs.queue_watch import QueueWatch
from trainyard_agent.nodes.liveness import QUIET_STEPS, quiet_needed
from trainyard_agent.nodes.node_table import NodeTable
from trainyard_contracts.attempt_events import AttemptStarted

log = logging.getLogger(__name__)

PROGRESS_SECONDS, SUSPICIOUS_SECONDS = 0.25, 0.05
POLL_SECONDS, EAGER_POLL_SECONDS = 2.0, 0.15
# A new attempt is looked at closely for so long.
EAGER_SECONDS = 30.0
#: A log prints some steps only, and late: its nodes are asked after this at the earliest.
MOST_SAID_SECONDS = 20.0


class Follower:
    """One task an attempt: it reads the steps, and asks Slurm now and then."""

    def __init__(
        self,
        slurm: Slurm,
        reporter: Reporter,
        *,
        attempts: Attempts,
        progress: ProgressReader,
        table: NodeTable,
        confirm: Confirm,
        queue: QueueWatch,
        powered_down: PoweredDown,
        hollow: HollowJobs,
        ending: Ending,
    ) -> None:
        self._slurm, self._reporter = slurm, reporter
        self._attempts, self._progress, self._table = attempts, progress, table
        self._confirm, self._queue, self._hollow, self._ending = confirm, queue, hollow, ending
        self._powered_down = powered_down
        self._background = Background()
        self._followed: set[Path] = set()

    def resume(self) -> None:
        """After a restart: follow what is active, finish what ended and was not closed."""
        for attempt in self._attempts.known.values():
            if attempt.active:
                self.follow(attempt)
            elif attempt.state == "ended" and not attempt.closed:
                self._background.spawn(self._ending.close(attempt))

    async def adopt(self, attempt: Attempt) -> bool:
        """Find the job that an interrupted submission made; whether there is one."""
        try:
            jobs = await self._slurm.jobs_named(job_name(attempt.run_id, attempt.number))
        except SlurmError as error:
            log.warning("cannot look for the job of %s: %s", attempt, error)
            raise
        if jobs:
            log.info("%s: found job %s of an interrupted submission", attempt, jobs[-1])
            self._attempts.save(attempt, state="submitted", job_id=jobs[-1])
        return bool(jobs)

    def follow(self, attempt: Attempt) -> None:
        """Watch an attempt until its end is reported."""
        attempt.followed_since = time.monotonic()
        attempt.eager_until = attempt.followed_since + EAGER_SECONDS
        if attempt.directory not in self._followed:
            self._followed.add(attempt.directory)
            self._background.spawn(self._follow(attempt))

    async def _follow(self, attempt: Attempt) -> None:
        polled = float("-inf")
        while True:
            self._look_at_steps(attempt)
            now = time.monotonic()
            if attempt.wake.is_set() or now - polled >= poll_seconds(attempt, now):
                attempt.wake.clear()
                polled = now
                if await self.poll(attempt):
                    return
            suspicious = any(map(self._table.suspicious, attempt.nodes))
            pause = SUSPICIOUS_SECONDS if suspicious else PROGRESS_SECONDS
            try:
                await asyncio.wait_for(attempt.wake.wait(), min(pause, poll_seconds(attempt, now)))
            except asyncio.TimeoutError:
                continue

    async def poll(self, attempt: Attempt) -> bool:
        """Ask Slurm once; True when the attempt's end was reported."""
        try:
            job = await self._ask(attempt)
        except SlurmError as error:
            log.warning("Slurm does not answer for job %s: %s", attempt.job_id, error)
            return False
        attempt.job_state = job.state if job else "UNKNOWN"
        if job is not None and job.nodes and attempt.state == "submitted":
            self._started(attempt, job)
        attempt.pending_reason = job.reason if job is not None and job.state == "PENDING" else ""
        if job is not None and attempt.pending_reason and attempt.state == "submitted":
            await self._powered_down.look_at(attempt, job)
            await self._queue.look_at(attempt)
        if job is None or job.ended:
            attempt.job_ended = True
            await self._ending.end(attempt, job)
            return True
        await self._hollow.look_inside(attempt)
        return False

    async def _ask(self, attempt: Attempt) -> Job | None:
        """The attempt's job; None if Slurm does not know it.

        A slurmctld that hangs takes seconds to be given up. Steps are seen meanwhile: they prove
        that the job's nodes live.
        """
        asking = asyncio.ensure_future(self._slurm.job(attempt.job_id))
        while not asking.done():
            await asyncio.wait({asking}, timeout=PROGRESS_SECONDS)
            self._look_at_steps(attempt)
        job = asking.result()
        if job is not None and job.name not in ("", job_name(attempt.run_id, attempt.number)):
            # A slurmctld that crashed before it saved its state forgot ours, and gave the number
            # to the next one.
            log.warning("job %s is %s now, not %s", job.job_id, job.name, attempt)
            return None
        return job

    def _started(self, attempt: Attempt, job: Job) -> None:
        waits_for = [node for node in job.nodes if self._table.awaited(node)]
        event = self._reporter.make(
            AttemptStarted,
            run_id=attempt.run_id,
            attempt=attempt.number,
            job_id=attempt.job_id,
            nodes=list(job.nodes),
            waits_for=waits_for,
        )
        attempt.running_since = time.monotonic()
        self._attempts.save(attempt, event, state="running", nodes=job.nodes)
        log.info("%s: job %s runs on %s", attempt, attempt.job_id, ",".join(job.nodes))
        if waits_for:
            log.warning("%s waits until %s is set up", attempt, ", ".join(waits_for))

    def _look_at_steps(self, attempt: Attempt) -> None:
        """Read the steps; ask the nodes' agents once a standstill.

        Steps that stay away are the first sign of a node that is gone: its agent is asked before
        its beat is late.
        """
        self._progress.read(attempt)
        if stands_still(attempt, time.monotonic()):
            attempt.doubted_at = last_sign(attempt)
            self._background.spawn(self._confirm(attempt.nodes))


def poll_seconds(attempt: Attempt, now: float) -> float:
    """Eagerly until the job runs and while it ends; else as a fallback of the epilog's hint."""
    eager = now < attempt.eager_until and (attempt.state == "submitted" or attempt.job_ended)
    return EAGER_POLL_SECONDS if eager else POLL_SECONDS


def stands_still(attempt: Attempt, now: float) -> bool:
    """The training has not stepped for long, and its nodes were not asked since its last step."""
    seen = last_sign(attempt)
    if seen is None or seen == attempt.doubted_at:
        return False
    if attempt.job_ended or attempt.state != "running":
        return False
    if attempt.stepped_at is None:
        return now - seen >= max(MOST_SAID_SECONDS, QUIET_STEPS * (attempt.said_every or 0.0))
    return now - seen >= quiet_needed(attempt.step_seconds)


def last_sign(attempt: Attempt) -> float | None:
    """When it last stepped, as far as the program itself or its log says."""
    return attempt.said_at if attempt.stepped_at is None else attempt.stepped_at

"""Reports how an attempt ended, with its evidence, once: the source of AttemptEnded."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any

from trainyard_agent.events.reporting import Reporter
from trainyard_agent.host.slurm import Slurm, SlurmError
from trainyard_agent.host.slurm_jobs import Job
from trainyard_agent.jobs import hollow_jobs
from trainyard_agent.jobs.attempt import Attempt
from trainyard_agent.jobs.attempts import Attempts
from trainyard_agent.jobs.forced_end import Kill
from trainyard_agent.jobs.progress import ProgressReader
from trainyard_agent.jobs.traces import read_launches, read_tail, unwritable
from trainyard_agent.nodes.node_table import NodeTable
from trainyard_contracts import places
from trainyard_contracts.agent_config import AgentConfig
from trainyard_contracts.attempt_ended import AttemptEnded
from trainyard_contracts.diagnosis import LOG_TAIL_BYTES, diagnose
from trainyard_contracts.diagnosis_sources import names_cause
from trainyard_contracts.diagnosis_verdict import Diagnosis
from trainyard_contracts.node_evidence import NodeEvidence

log = logging.getLogger(__name__)

EVIDENCE_SECONDS = 1.5
#: So long a job may save that a person ended, as one that we were asked to cancel.
STOP_SECONDS = 20.0
#: A job that failed is reported this long after a node's agent counts as silent, at the latest:
#: until then it is looked whether the node is lost.
DOUBT_SECONDS = 2.5
LOOK_SECONDS = 0.05
#: AttemptEnded carries the evidence of this many nodes at most, the doubtful ones first: PutEvents
#: takes 256 KB an event.
EVIDENCE_NODES = 200

#: Doubts those of these nodes that do not answer now (silence.SilenceWatch.confirm).
Confirm = Callable[[Collection[str]], Coroutine[Any, Any, None]]


class Ending:
    """From the moment when Slurm says that a job is over until nothing is left to do about it."""

    def __init__(
        self,
        config: AgentConfig,
        slurm: Slurm,
        reporter: Reporter,
        *,
        attempts: Attempts,
        progress: ProgressReader,
        table: NodeTable,
        confirm: Confirm,
        kill: Kill,
        on_end: Callable[[Attempt], Awaitable[None]],
    ) -> None:
        self._config, self._slurm, self._reporter = config, slurm, reporter
        self._attempts, self._progress, self._table = attempts, progress, table
        self._confirm, self._kill, self._on_end = confirm, kill, on_end

    async def end(self, attempt: Attempt, job: Job | None) -> None:
        """Gather evidence for a moment, then report once."""
        job = await self._await_evidence(attempt, job)
        attempt.job_state = job.state if job else "UNKNOWN"
        self._progress.read(attempt)
        lost = [name for name in attempt.nodes if self._table.lost(name)]
        tail = read_tail(attempt.directory / places.JOB_LOG, LOG_TAIL_BYTES)
        diagnosis = self._diagnose(attempt, job, tail, lost)
        if diagnosis.outcome == "failed" and diagnosis.error_kind != "node":
            diagnosis = diagnosis.because(await asyncio.to_thread(unwritable, attempt.directory))
        if not lost and not self._attempts.cancelled(attempt):
            diagnosis = with_restart(diagnosis, attempt.cut_off_from)
        attempt.ended_at = time.monotonic()
        attempt.ended_well = diagnosis.outcome == "succeeded"
        self._attempts.save(attempt, self._event(attempt, diagnosis, tail), state="ended")
        log.info("%s ended: %s", attempt, diagnosis)
        attempt.done.set()
        await self.close(attempt)

    async def close(self, attempt: Attempt) -> None:
        """What follows the end; done again after a restart that came in between."""
        await self._on_end(attempt)
        self._attempts.save(attempt, closed=True)

    def _diagnose(self, attempt: Attempt, job: Job | None, tail: str, lost: list[str]) -> Diagnosis:
        superseded = self._attempts.superseded(attempt)
        launches = read_launches(attempt.directory)
        return diagnose(
            job,
            [one for one in launches if one.node in attempt.nodes or not attempt.nodes],
            tail,
            lost=lost,
            cancelled=self._attempts.cancelled(attempt),
            superseded=superseded,
            hollow=attempt.hollow or hollow_jobs.is_marked(attempt.directory),
        )

    async def _await_evidence(self, attempt: Attempt, job: Job | None) -> Job | None:
        """Wait, but not long, until no node of a failed job is in doubt and Slurm has decided."""
        began = time.monotonic()
        failed = job is None or job.state != "COMPLETED"
        if failed:
            await self._confirm(attempt.nodes)
        patience = EVIDENCE_SECONDS
        while True:
            waited = time.monotonic() - began
            doubt = failed and self._in_doubt(attempt, waited)
            undecided = is_undecided(attempt, job)
            saves = undecided and waited >= EVIDENCE_SECONDS and self._may_save(attempt)
            if saves:
                patience = waited + EVIDENCE_SECONDS
            # A look may come late, on a busy controller: it is judged by what it sees.
            stuck = saves and waited >= STOP_SECONDS
            if not doubt and (stuck or not (undecided and waited < patience)):
                break
            await asyncio.sleep(LOOK_SECONDS)
            if undecided:
                job = await self._ask(attempt) or job
        if stuck:
            words = "job %s did not stop within %.0f s: killing it"
            log.warning(words, attempt.job_id, STOP_SECONDS)
            await self._kill(attempt.run_id, attempt.number, [attempt.job_id])
        return job

    async def _ask(self, attempt: Attempt) -> Job | None:
        """The job; None if Slurm does not know it or does not answer."""
        try:
            return await self._slurm.job(attempt.job_id)
        except SlurmError as error:
            log.warning("Slurm does not answer for job %s: %s", attempt.job_id, error)
            return None

    def _in_doubt(self, attempt: Attempt, waited: float) -> bool:
        patience = self._config.silent_after_seconds + DOUBT_SECONDS
        return waited < patience and any(map(self._table.suspicious, attempt.nodes))

    def _may_save(self, attempt: Attempt) -> bool:
        """Whether a job that a person or a time limit ended may still write a checkpoint.

        It has Slurm's KillWait for that.
        """
        if any(map(self._table.lost, attempt.nodes)) or self._attempts.superseded(attempt):
            return False
        launches = read_launches(attempt.directory)
        return any(one.ended is None and one.node in attempt.nodes for one in launches)

    def _event(self, attempt: Attempt, diagnosis: Diagnosis, tail: str) -> AttemptEnded:
        return self._reporter.make(
            AttemptEnded,
            run_id=attempt.run_id,
            attempt=attempt.number,
            job_id=attempt.job_id,
            outcome=diagnosis.outcome,
            exit_code=diagnosis.exit_code,
            signal=diagnosis.signal,
            error=diagnosis.error,
            error_kind=diagnosis.error_kind,
            exception=diagnosis.exception,
            lasting=diagnosis.lasting,
            memory=diagnosis.memory,
            traceback=diagnosis.traceback,
            remark=diagnosis.remark,
            failed_node=diagnosis.failed_node,
            last_step=attempt.progress.step if attempt.progress else None,
            last_loss=attempt.progress.loss if attempt.progress else None,
            step_source=attempt.progress.source if attempt.progress else "program",
            never_ran=never_ran(attempt, diagnosis),
            nodes=doubtful_first([self._table.evidence(name) for name in attempt.nodes]),
            log_tail=tail,
        )


def never_ran(attempt: Attempt, diagnosis: Diagnosis) -> bool:
    """Whether the job ended before its script began: Slurm makes the log when it does.

    Of a directory that is not there or cannot be read nobody knows it.
    """
    if diagnosis.outcome != "failed" or attempt.progress is not None:
        return False
    try:
        there = os.listdir(attempt.directory)
    except OSError as error:
        log.warning("whether %s ran cannot be read: %s", attempt, error)
        return False
    return not any(name == places.JOB_LOG or places.is_launch_report(name) for name in there)


def with_restart(diagnosis: Diagnosis, node: str) -> Diagnosis:
    """A job that did not succeed and that was cut off from a node failed because of that."""
    if not node or diagnosis.outcome == "succeeded":
        return diagnosis
    text = f"{node} was restarted"
    return Diagnosis("failed", None, int(signal.SIGKILL), text, "signal", node)


def doubtful_first(found: list[NodeEvidence]) -> list[NodeEvidence]:
    """The evidence that fits into an event, doubtful nodes first."""
    ordered = sorted(found, key=lambda node: (node.agent, node.scheduler) == ("linked", "up"))
    return ordered[:EVIDENCE_NODES]


def is_undecided(attempt: Attempt, job: Job | None) -> bool:
    """Slurm is still ending the job, and nothing explains yet why it ended."""
    return job is not None and job.state == "COMPLETING" and not is_explained(attempt, job)


def is_explained(attempt: Attempt, job: Job) -> bool:
    """Whether Slurm's present words are final, because a launcher names a cause for them.

    Else an exit code may still become CANCELLED: zero, or the one with which a job answers a
    person's scancel.
    """
    return bool(job.exit_code or job.signal) and any(
        names_cause(launch) for launch in read_launches(attempt.directory)
    )

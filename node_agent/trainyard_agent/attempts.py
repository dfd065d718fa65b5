"""Follows every active attempt: started, first step, end with its evidence; each reported once, also across restarts."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sqlite3
import time
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, Protocol

from trainyard_agent import hollow_jobs, job_files
from trainyard_agent.attempt_files import job_name
from trainyard_agent.background import Background
from trainyard_agent.configuration import attempt_dir
from trainyard_agent.evidence import LOG_TAIL_BYTES, Diagnosis, diagnose
from trainyard_agent.liveness import quiet_needed
from trainyard_agent.registry import Activity
from trainyard_agent.reporting import Reporter
from trainyard_agent.slurm import Job, Slurm, SlurmError, SlurmNode
from trainyard_agent.slurm_queue import ahead, parse_queue
from trainyard_agent.traces import read_launches, read_tail, unwritable
from trainyard_contracts.events import (
    AttemptEnded,
    AttemptQueued,
    AttemptStarted,
    AttemptStepped,
    NodeEvidence,
    RunSample,
)
from trainyard_contracts.files import AgentConfig, JobBundle, Progress

log = logging.getLogger(__name__)

State = Literal["intent", "submitting", "submitted", "running", "ended"]
#: In the store only: ended, and everything that follows the end was done.
CLOSED = "closed"
PROGRESS_SECONDS, SUSPICIOUS_SECONDS = 0.25, 0.05
POLL_SECONDS, EAGER_POLL_SECONDS = 2.0, 0.15
EVIDENCE_SECONDS = 1.5
#: So long a job may save that a person ended, as one that we were asked to cancel.
STOP_SECONDS = 20.0
#: A job that Slurm has not started by then waits for something. Who is in its way is asked for and told so often at most.
QUEUED_SECONDS, ASK_QUEUE_SECONDS, TELL_QUEUE_SECONDS = 3.0, 10.0, 60.0
#: Beyond the time after which an agent counts as silent: until it is known whether a node of a job that failed is lost.
DOUBT_SECONDS = 2.5
#: A node that comes back is asked to end what is left of so many of the runs that used it, the newest.
LEFTOVER_RUNS = 20
#: Clocks of a cluster's nodes differ by less, or one of them is wrong.
CLOCK_SECONDS = 5.0
#: An ended attempt still explains for this long why its nodes fell silent.
RECENT_SECONDS = 60.0
#: AttemptEnded carries the evidence of this many nodes at most, the doubtful ones first: PutEvents takes 256 KB an event.
EVIDENCE_NODES = 200


class Nodes(Protocol):
    """What the registry knows."""

    def suspicious(self, name: str) -> bool: ...

    def lost(self, name: str) -> bool: ...

    def evidence(self, name: str) -> NodeEvidence: ...

    def set_up(self, name: str) -> bool: ...

    @property
    def slurm_nodes(self) -> dict[str, SlurmNode]: ...

    async def confirm(self, names: Collection[str]) -> None: ...


@dataclass
class Attempt:
    """One attempt in this agent's memory; `state`, `job_id`, `nodes` and `stepped` are in the store as well."""

    run_id: str
    number: int
    state: State
    directory: Path
    bundle_uri: str = ""
    job_id: str = ""
    nodes: tuple[str, ...] = ()
    stepped: bool = False
    job_state: str = ""
    progress: Progress | None = None
    progress_seen: tuple[int, int] = (0, 0)
    stepped_at: float | None = None
    step_seconds: float | None = None
    doubted_at: float | None = None
    """The step after which training stood still so long that its nodes were asked."""
    job_ended: bool = False
    closed: bool = False
    ended_at: float | None = None
    running_since: float = field(default_factory=time.monotonic)
    cut_off_from: str = ""
    followed_since: float = field(default_factory=time.monotonic)
    pending_reason: str = ""
    queue_asked_at: float = float("-inf")
    queue_told: AttemptQueued | None = None
    queue_told_at: float = float("-inf")
    looked_at: float = float("-inf")
    hollow_since: float | None = None
    hollow: bool = False
    eager_until: float = 0.0
    hosts_stale: bool = False
    writes_hosts: bool = False
    bundle: JobBundle | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def active(self) -> bool:
        return self.state in ("submitted", "running")


class Attempts:
    """All attempts this controller knows."""

    def __init__(self, config: AgentConfig, slurm: Slurm, reporter: Reporter) -> None:
        self._config, self._slurm, self._reporter = config, slurm, reporter
        self.nodes: Nodes
        self.on_end: Callable[[Attempt], Coroutine[Any, Any, None]]
        #: SIGKILL to all that a run's attempts up to this one have on the nodes that answer.
        self.kill: Callable[[str, int, list[str]], Coroutine[Any, Any, Any]]
        self.changed = asyncio.Event()
        self.known: dict[tuple[str, int], Attempt] = {}
        self.cancels: dict[str, int] = {}
        self._background = Background()
        self._followed: set[Path] = set()
        self._load()

    def _load(self) -> None:
        connection = self._reporter.store.connection
        query = "SELECT run, attempt, state, bundle, job, nodes, stepped FROM attempts ORDER BY run, attempt"
        for run, number, state, uri, job, nodes, stepped in connection.execute(query):
            directory = attempt_dir(self._config, run, number)
            closed = state == CLOSED
            attempt = Attempt(
                run,
                number,
                "ended" if closed else state,
                directory,
                uri,
                job,
                tuple(json.loads(nodes)),
                bool(stepped),
            )
            attempt.closed = closed
            attempt.job_ended = attempt.state == "ended"
            if attempt.job_ended:
                attempt.done.set()
            self.known[run, number] = attempt
        self.cancels = dict(connection.execute("SELECT run, attempt FROM cancels").fetchall())

    def resume(self) -> None:
        """After a restart: follow what is active, finish what ended and was not closed."""
        for attempt in self.known.values():
            if attempt.active:
                self.follow(attempt)
            elif attempt.state == "ended" and not attempt.closed:
                self._background.spawn(self._close(attempt))

    async def adopt(self, attempt: Attempt) -> bool:
        """Find the job that an interrupted submission made; whether there is one."""
        try:
            jobs = await self._slurm.jobs_named(job_name(attempt.run_id, attempt.number))
        except SlurmError as error:
            log.warning(
                "cannot look for the job of %s attempt %d: %s",
                attempt.run_id,
                attempt.number,
                error,
            )
            raise
        if jobs:
            log.info(
                "%s attempt %d: found job %s of an interrupted submission",
                attempt.run_id,
                attempt.number,
                jobs[-1],
            )
            self.save(attempt, state="submitted", job_id=jobs[-1])
        return bool(jobs)

    # -- the store --------------------------------------------------------------------------------
    def save(self, attempt: Attempt, *events: Any, must: bool = False, **changes: Any) -> None:
        """Change an attempt and report it, in one transaction. `must`: raise sqlite3.OperationalError if it cannot reach the disk."""
        before = {name: getattr(attempt, name) for name in changes}
        _assign(attempt, changes)
        row = (
            attempt.run_id,
            attempt.number,
            CLOSED if attempt.closed else attempt.state,
            attempt.bundle_uri,
            attempt.job_id,
            json.dumps(attempt.nodes),
            int(attempt.stepped),
        )

        def change(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO attempts VALUES(?, ?, ?, ?, ?, ?, ?)", row)

        try:
            if must:
                self._reporter.store.apply_now(change)
            else:
                self._reporter.report(*events, change=change)
        except sqlite3.OperationalError:
            _assign(attempt, before)
            raise
        self.known[attempt.run_id, attempt.number] = attempt
        self.changed.set()

    def request_cancel(self, attempt: Attempt) -> None:
        """Note that this attempt ends because a person wants it to; later attempts of the run are not meant."""
        self.cancels[attempt.run_id] = attempt.number
        row = (attempt.run_id, attempt.number)
        self._reporter.report(
            change=lambda db: db.execute("INSERT OR REPLACE INTO cancels VALUES(?, ?)", row)
        )

    def cancelled(self, attempt: Attempt) -> bool:
        return self.cancels.get(attempt.run_id) == attempt.number

    def newest(self, run_id: str) -> Attempt | None:
        """The run's newest attempt."""
        return max(
            (a for (run, _), a in self.known.items() if run == run_id),
            key=lambda a: a.number,
            default=None,
        )

    def active(self) -> list[Attempt]:
        return [attempt for attempt in self.known.values() if attempt.active]

    # -- what others ask --------------------------------------------------------------------------
    def on_node(self, node: str) -> Activity | None:
        """registry.Jobs: the attempt whose job is on the node, else the one that ended there last, a moment ago; numbers count within a run."""
        now = time.monotonic()
        using = [
            a
            for a in self.known.values()
            if node in a.nodes and (a.active or (a.ended_at or -1e9) > now - RECENT_SECONDS)
        ]
        if not using:
            return None
        attempt = max(using, key=lambda a: (a.active, not a.job_ended, a.ended_at or 0.0, a.number))
        return Activity(
            attempt.run_id,
            attempt.number,
            attempt.job_ended,
            attempt.stepped_at,
            attempt.step_seconds,
        )

    def busy(self) -> bool:
        """registry.Jobs."""
        return bool(self.active())

    def leftovers(self, node: str) -> list[tuple[str, int, list[str]]]:
        """registry.Jobs: never the newest attempt of a run while that goes on, nor a job whose number another run has by now."""
        newest: dict[str, int] = {}
        for run, number in self.known:
            newest[run] = max(number, newest.get(run, 0))
        over: dict[str, list[Attempt]] = {}
        for attempt in self.known.values():
            if node in attempt.nodes and (
                not attempt.active or attempt.number < newest[attempt.run_id]
            ):
                over.setdefault(attempt.run_id, []).append(attempt)
        alive = {
            attempt.job_id for attempt in self.active() if attempt.number == newest[attempt.run_id]
        }
        newest_runs = sorted(over, reverse=True)[:LEFTOVER_RUNS]  # their ids begin with the time
        return [
            (
                run,
                max(a.number for a in over[run]),
                [a.job_id for a in over[run] if a.job_id not in ("", *alive)],
            )
            for run in newest_runs
        ]

    def samples(self) -> list[RunSample]:
        """Where every active run stands."""
        found = []
        for a in self.active():
            step, loss = (a.progress.step, a.progress.loss) if a.progress else (None, None)
            found.append(
                RunSample(
                    run_id=a.run_id,
                    attempt=a.number,
                    job_state=a.job_state,
                    pending_reason=a.pending_reason,
                    step=step,
                    loss=loss,
                )
            )
        return found

    def job_ended_somewhere(self) -> None:
        """The epilog's hint: look at every active job now, and closely for a while."""
        for attempt in self.active():
            attempt.eager_until = time.monotonic() + 5.0
            attempt.wake.set()

    def restarted(self, node: str, off_at: float) -> None:
        """registry.Jobs: Slurm takes half a minute to notice that for the batch host, and never for another node."""
        for attempt in self.active():
            if (
                attempt.state == "running"
                and node in attempt.nodes
                and attempt.running_since < off_at
                and not attempt.cut_off_from
            ):
                log.warning(
                    "%s was restarted under %s attempt %d: its job is ended",
                    node,
                    attempt.run_id,
                    attempt.number,
                )
                attempt.cut_off_from = node
                self._background.spawn(self._end_job(attempt))

    async def _end_job(self, attempt: Attempt) -> None:
        """By force: nothing comes of this job any more, and Slurm alone would give it the time that it gives everybody (KillWait)."""
        while not attempt.done.is_set():
            await self.kill(attempt.run_id, attempt.number, [attempt.job_id])
            try:
                await self._slurm.cancel(attempt.job_id)
                attempt.wake.set()
                return
            except SlurmError as error:
                log.warning("job %s cannot be ended yet: %s", attempt.job_id, error)
                await asyncio.sleep(1.0)

    # -- following --------------------------------------------------------------------------------
    def follow(self, attempt: Attempt) -> None:
        """Watch an attempt until its end is reported."""
        attempt.followed_since = time.monotonic()
        attempt.eager_until = attempt.followed_since + 30.0
        if attempt.directory not in self._followed:
            self._followed.add(attempt.directory)
            self._background.spawn(self._follow(attempt))

    async def _follow(self, attempt: Attempt) -> None:
        polled = float("-inf")
        while True:
            self._look_at_steps(attempt)
            now = time.monotonic()
            if attempt.wake.is_set() or now - polled >= self._poll_seconds(attempt, now):
                attempt.wake.clear()
                polled = now
                if await self._poll(attempt):
                    return
            pause = (
                SUSPICIOUS_SECONDS
                if any(map(self.nodes.suspicious, attempt.nodes))
                else PROGRESS_SECONDS
            )
            try:
                await asyncio.wait_for(
                    attempt.wake.wait(), min(pause, self._poll_seconds(attempt, now))
                )
            except asyncio.TimeoutError:
                continue

    @staticmethod
    def _poll_seconds(attempt: Attempt, now: float) -> float:
        """Eagerly until the job runs and while it ends; else only as a fallback of the epilog's hint."""
        eager = now < attempt.eager_until and (attempt.state == "submitted" or attempt.job_ended)
        return EAGER_POLL_SECONDS if eager else POLL_SECONDS

    async def _poll(self, attempt: Attempt) -> bool:
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
        if attempt.pending_reason and attempt.state == "submitted":
            await self._queued(attempt)
        if job is None or job.ended:
            attempt.job_ended = True
            await self._end(attempt, job)
            return True
        await self._look_inside(attempt)
        return False

    async def _look_inside(self, attempt: Attempt) -> None:
        """End a job of which nothing runs any more; while a node is in doubt, that explains more."""
        now = time.monotonic()
        if (
            attempt.state != "running"
            or now - attempt.looked_at < hollow_jobs.seconds_between_looks(attempt.nodes)
        ):
            return
        attempt.looked_at = now
        launches = await asyncio.to_thread(read_launches, attempt.directory)
        doubt = any(self.nodes.suspicious(name) or self.nodes.lost(name) for name in attempt.nodes)
        if doubt or not hollow_jobs.is_hollow(attempt.nodes, launches):
            attempt.hollow_since = None
            return
        attempt.hollow_since = attempt.hollow_since or now
        if now - attempt.hollow_since >= hollow_jobs.GRACE_SECONDS:
            await self._end_hollow(attempt)

    async def _end_hollow(self, attempt: Attempt) -> None:
        """Asked again at each look until Slurm has ended it."""
        log.warning(
            "%s attempt %d: its launchers have ended, but job %s runs on: it is ended",
            attempt.run_id,
            attempt.number,
            attempt.job_id,
        )
        attempt.hollow = True
        await asyncio.to_thread(hollow_jobs.mark, attempt.directory)
        await self.kill(attempt.run_id, attempt.number, [attempt.job_id])
        try:
            await self._slurm.cancel(attempt.job_id)
        except SlurmError as error:
            log.warning("job %s cannot be ended yet: %s", attempt.job_id, error)
        attempt.wake.set()

    async def _ask(self, attempt: Attempt) -> Job | None:
        """A slurmctld that hangs takes seconds to be given up. Steps are seen meanwhile: they prove that the job's nodes live."""
        asking = asyncio.ensure_future(self._slurm.job(attempt.job_id))
        while not asking.done():
            await asyncio.wait({asking}, timeout=PROGRESS_SECONDS)
            self._look_at_steps(attempt)
        job = asking.result()
        if job is not None and job.name not in ("", job_name(attempt.run_id, attempt.number)):
            # A slurmctld that crashed before it saved its state forgot ours, and gave the number to the next one.
            log.warning(
                "job %s is %s now, not %s attempt %d",
                job.job_id,
                job.name,
                attempt.run_id,
                attempt.number,
            )
            return None
        return job

    async def _queued(self, attempt: Attempt) -> None:
        """The job waits: tell why, and again when other jobs are in its way."""
        now = time.monotonic()
        if (
            now - attempt.followed_since < QUEUED_SECONDS
            or now - attempt.queue_asked_at < ASK_QUEUE_SECONDS
        ):
            return
        attempt.queue_asked_at = now
        try:
            queue = parse_queue(await self._slurm.queue())
        except SlurmError as error:
            log.warning("for whom job %s waits cannot be read now: %s", attempt.job_id, error)
            return
        in_the_way = ahead(attempt.job_id, queue, self.nodes.slurm_nodes)
        told, reason = attempt.queue_told, attempt.pending_reason
        same = told is not None and told.ahead == in_the_way and told.reason == reason
        if same or now - attempt.queue_told_at < TELL_QUEUE_SECONDS:
            return
        event = self._reporter.make(
            AttemptQueued,
            run_id=attempt.run_id,
            attempt=attempt.number,
            job_id=attempt.job_id,
            reason=reason,
            ahead=in_the_way,
        )
        self.save(attempt, event, queue_told=event, queue_told_at=now)
        log.info(
            "%s attempt %d: job %s waits (%s)",
            attempt.run_id,
            attempt.number,
            attempt.job_id,
            reason,
        )

    def _started(self, attempt: Attempt, job: Job) -> None:
        waits_for = [node for node in job.nodes if not self.nodes.set_up(node)]
        event = self._reporter.make(
            AttemptStarted, run_id=attempt.run_id, attempt=attempt.number, job_id=attempt.job_id, nodes=list(job.nodes), waits_for=waits_for
        )  # fmt: skip
        attempt.running_since = time.monotonic()
        self.save(attempt, event, state="running", nodes=job.nodes)
        log.info(
            "%s attempt %d: job %s runs on %s",
            attempt.run_id,
            attempt.number,
            attempt.job_id,
            ",".join(job.nodes),
        )
        if waits_for:
            log.warning(
                "%s attempt %d waits until %s is set up",
                attempt.run_id,
                attempt.number,
                ", ".join(waits_for),
            )

    def _look_at_steps(self, attempt: Attempt) -> None:
        """Steps that stay away are the first sign of a node that is gone: its agent is asked before its beat is late, once a standstill."""
        self.read_progress(attempt)
        stepped_at = attempt.stepped_at
        if (
            stepped_at is None
            or stepped_at == attempt.doubted_at
            or attempt.job_ended
            or attempt.state != "running"
        ):
            return
        if time.monotonic() - stepped_at >= quiet_needed(attempt.step_seconds):
            attempt.doubted_at = stepped_at
            self._background.spawn(self.nodes.confirm(attempt.nodes))

    def read_progress(self, attempt: Attempt) -> None:
        """Take up progress.json if it changed; report the first step."""
        path = attempt.directory / "progress.json"
        try:
            stat = path.stat()
            if (stat.st_mtime_ns, stat.st_ino) == attempt.progress_seen:
                return
            progress = Progress.model_validate_json(job_files.read_small(attempt.directory, path))
        except (OSError, ValueError):
            return
        attempt.progress_seen = (stat.st_mtime_ns, stat.st_ino)
        self._note_step(attempt, progress)
        if progress.first_step_at is not None and not attempt.stepped:
            event = self._reporter.make(
                AttemptStepped,
                run_id=attempt.run_id,
                attempt=attempt.number,
                step=progress.step,
                resumed_from=progress.resumed_from,
                stepped_at=datetime.fromtimestamp(_first_step_at(attempt, progress), timezone.utc),
            )
            self.save(attempt, event, stepped=True)
            log.info(
                "%s attempt %d: first step %d, resumed from %s",
                attempt.run_id,
                attempt.number,
                progress.step,
                progress.resumed_from,
            )

    @staticmethod
    def _note_step(attempt: Attempt, progress: Progress) -> None:
        before, attempt.progress = attempt.progress, progress
        if before is None or progress.step == before.step:
            return
        attempt.stepped_at = time.monotonic()
        if progress.step > before.step and progress.at > before.at:
            seconds = (progress.at - before.at) / (progress.step - before.step)
            attempt.step_seconds = (
                seconds
                if attempt.step_seconds is None
                else 0.7 * attempt.step_seconds + 0.3 * seconds
            )

    # -- the end ----------------------------------------------------------------------------------
    async def _end(self, attempt: Attempt, job: Job | None) -> None:
        """Gather evidence for a moment, then report once."""
        job = await self._await_evidence(attempt, job)
        attempt.job_state = job.state if job else "UNKNOWN"
        self.read_progress(attempt)
        lost = [name for name in attempt.nodes if self.nodes.lost(name)]
        newest = self.newest(attempt.run_id)
        tail = read_tail(attempt.directory / "job.log", LOG_TAIL_BYTES)
        diagnosis = diagnose(
            job,
            [
                launch
                for launch in read_launches(attempt.directory)
                if launch.node in attempt.nodes or not attempt.nodes
            ],
            tail,
            lost=lost,
            cancelled=self.cancelled(attempt),
            superseded=newest is not None and newest.number > attempt.number,
            hollow=attempt.hollow or hollow_jobs.is_marked(attempt.directory),
        )
        if diagnosis.outcome == "failed" and diagnosis.error_kind != "node":
            diagnosis = diagnosis.because(await asyncio.to_thread(unwritable, attempt.directory))
        if (
            attempt.cut_off_from
            and diagnosis.outcome != "succeeded"
            and not lost
            and not self.cancelled(attempt)
        ):
            text = f"{attempt.cut_off_from} was restarted"
            diagnosis = Diagnosis(
                "failed", None, int(signal.SIGKILL), text, "signal", attempt.cut_off_from
            )
        attempt.ended_at = time.monotonic()
        self.save(attempt, self._ended_event(attempt, diagnosis, tail), state="ended")
        log.info("%s attempt %d ended: %s", attempt.run_id, attempt.number, diagnosis)
        attempt.done.set()
        await self._close(attempt)

    async def _close(self, attempt: Attempt) -> None:
        await self.on_end(attempt)
        self.save(attempt, closed=True)

    async def _await_evidence(self, attempt: Attempt, job: Job | None) -> Job | None:
        """Wait until no node of a job that failed is in doubt and Slurm has made up its mind, but not long."""
        began = time.monotonic()
        failed = job is None or job.state != "COMPLETED"
        if failed:
            await self.nodes.confirm(attempt.nodes)
        patience = EVIDENCE_SECONDS
        while True:
            waited = time.monotonic() - began
            doubt = (
                failed
                and waited < self._config.silent_after_seconds + DOUBT_SECONDS
                and any(map(self.nodes.suspicious, attempt.nodes))
            )
            undecided = (
                job is not None and job.state == "COMPLETING" and not _explained(attempt, job)
            )
            if undecided and EVIDENCE_SECONDS <= waited < STOP_SECONDS and self._may_save(attempt):
                patience = waited + EVIDENCE_SECONDS
            if not doubt and not (undecided and waited < patience):
                break
            await asyncio.sleep(0.05)
            if undecided:
                try:
                    job = await self._slurm.job(attempt.job_id) or job
                except SlurmError as error:
                    log.warning("Slurm does not answer for job %s: %s", attempt.job_id, error)
        if patience > STOP_SECONDS:
            log.warning(
                "job %s did not stop within %.0f s: killing it", attempt.job_id, STOP_SECONDS
            )
            await self.kill(attempt.run_id, attempt.number, [attempt.job_id])
        return job

    def _may_save(self, attempt: Attempt) -> bool:
        """A job that somebody ended (scancel, a time limit) may write a checkpoint while Slurm's KillWait runs."""
        newest = self.newest(attempt.run_id)
        if any(map(self.nodes.lost, attempt.nodes)) or (
            newest is not None and newest.number > attempt.number
        ):
            return False
        return any(
            launch.ended is None and launch.node in attempt.nodes
            for launch in read_launches(attempt.directory)
        )

    def _ended_event(self, attempt: Attempt, diagnosis: Diagnosis, tail: str) -> AttemptEnded:
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
            failed_node=diagnosis.failed_node,
            last_step=attempt.progress.step if attempt.progress else None,
            nodes=self._evidence(attempt),
            log_tail=tail,
        )

    def _evidence(self, attempt: Attempt) -> list[NodeEvidence]:
        found = [self.nodes.evidence(name) for name in attempt.nodes]
        return sorted(found, key=lambda node: (node.agent, node.scheduler) == ("linked", "up"))[
            :EVIDENCE_NODES
        ]


def _first_step_at(attempt: Attempt, progress: Progress) -> float:
    """When the first step was. A node's clock that puts it before the attempt or into the future is wrong: only its differences count."""
    now, told = time.time(), progress.first_step_at or progress.at
    try:
        made = (attempt.directory / "bundle.json").stat().st_mtime
    except OSError:
        made = 0.0
    if made - CLOCK_SECONDS <= told <= now + CLOCK_SECONDS:
        return told
    return now - max(0.0, progress.at - told)


def _assign(attempt: Attempt, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(attempt, name, value)


def _explained(attempt: Attempt, job: Job) -> bool:
    """Zero may still become CANCELLED, and so may the exit code with which a job answers a person's scancel."""
    return bool(job.exit_code or job.signal) and any(
        launch.names_cause for launch in read_launches(attempt.directory)
    )

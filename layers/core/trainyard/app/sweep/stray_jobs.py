"""Jobs whose run has ended, and runs whose job nobody hears of."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from trainyard.app.clusters.list_nodes import newest_heartbeats
from trainyard.app.facts.job_events import record_job_fact
from trainyard.app.facts.situation import cluster_of
from trainyard.app.sweep.dead_machines import START_SECONDS
from trainyard.app.sweep.swept import Swept
from trainyard.domain.book import Book
from trainyard.domain.errors import RecordUnreadable, RunNotFound
from trainyard.domain.job_ends import job_ended
from trainyard.domain.records import Cluster, Run
from trainyard.ports import Ports
from trainyard_contracts.commands import Cancel, JobState, Status, answer_of

#: A job that a heartbeat shows so long after its run ended was never stopped.
STRAY_SECONDS = 60
STOP_COMMAND_SECONDS = 20.0


def run_if_there(ports: Ports, run_id: str) -> Run | None:
    try:
        return ports.runs.get(run_id)
    except (RunNotFound, RecordUnreadable):
        return None


def stray_job(ports: Ports, cluster: Cluster) -> Iterator[Swept]:
    """Stop a job whose run is over: nobody could reach its controller when the run ended."""
    if cluster.status != "Ready":
        return
    for beat in newest_heartbeats(ports, cluster.name, 1):
        for sample in beat.runs:
            run = run_if_there(ports, sample.run_id)
            if (
                run is None
                or run.finished_at is None
                or beat.at - run.finished_at < timedelta(seconds=STRAY_SECONDS)
            ):
                continue
            ports.backend(cluster).run(
                cluster, Cancel(run.id).argv(), timeout_seconds=STOP_COMMAND_SECONDS
            )
            yield Swept(
                "job stopped",
                run.id,
                f"the run is {run.status}, but its job still ran on {cluster.name}",
            )


def unheard_job(ports: Ports, run: Run) -> Iterator[Swept]:
    """Ask for a job whose nodes came with it: the event of its end may be lost."""
    attempt = run.attempt
    if attempt is None or attempt.submitted_at is None or attempt.ended_at is not None:
        return
    if ports.clock.now() - attempt.submitted_at < timedelta(seconds=START_SECONDS):
        return
    cluster = cluster_of(ports, run)
    if cluster is None or cluster.status != "Ready" or not cluster.spec.nodes_come_with_jobs:
        return
    result = ports.backend(cluster).run(
        cluster, Status(run.id).argv(), timeout_seconds=STOP_COMMAND_SECONDS
    )
    told = JobState.of(answer_of(result.stdout) or {})
    if result.exit_code != 0 or not told.how or told.attempt != attempt.number:
        return
    fact = job_ended(told.job_id, run.id, attempt.number, told.how, told.reason, ports.clock.now())
    if fact is not None and Book(ports.runs.facts(run.id)).job_end_of(attempt) is None:
        record_job_fact(ports, run, fact)
        yield Swept("job's end", run.id, f"no event told that {told.job_id} is over ({told.how})")

"""What a backend says of the job of a run's attempt."""

from __future__ import annotations

from trainyard.app.facts.recorded import Recorded
from trainyard.app.facts.waking import wake_run
from trainyard.domain.errors import ClusterNotFound, RunNotFound
from trainyard.domain.facts import attempt_of, type_of
from trainyard.domain.kinds import sentence
from trainyard.domain.records import Run
from trainyard.outside.seen_events import BackendEvent
from trainyard.ports import Ports
from trainyard_contracts.events import Fact


def record_job_event(ports: Ports, kind: str, read: BackendEvent) -> Recorded:
    """Record what a backend says of the job of a run's attempt."""
    try:
        run = ports.runs.get(read.run_id)
        cluster = ports.clusters.get(run.cluster_name)
    except (RunNotFound, ClusterNotFound):
        return Recorded("dropped", "not a job of a run of ours", kind, read.fact.id)
    if not cluster.spec.nodes_come_with_jobs:
        return Recorded("dropped", "the run has no such job", kind, read.fact.id, cluster.name)
    return record_job_fact(ports, run, read.fact)


def record_job_fact(ports: Ports, run: Run, fact: Fact) -> Recorded:
    """Record a fact of the job of one of the run's attempts, once, and wake the run."""
    number, kind = attempt_of(fact), type_of(fact)
    if all(attempt.number != number for attempt in run.attempts):
        reason = f"the run has no attempt {number}"
        return Recorded("dropped", reason, kind, fact.id, run.cluster_name, run.id)
    if run.terminal:
        reason = f"the run is {run.status}"
        return Recorded("dropped", reason, kind, fact.id, run.cluster_name, run.id)
    line = sentence(fact)
    ports.runs.record(run.id, fact, line)
    woken = wake_run(ports, run.id, type(fact))
    return Recorded(
        "recorded", line, kind, fact.id, run.cluster_name, run.id, (run.id,) if woken else ()
    )

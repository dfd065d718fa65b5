"""Facts of runs and of clusters, and the runs that they wake."""

from __future__ import annotations

from datetime import datetime

from trainyard.app.facts.cluster_events import record_cluster_fact
from trainyard.app.facts.recorded import Recorded, dropped
from trainyard.app.facts.timeline_lines import checkpoint_of, forget_the_rest, record_listed
from trainyard.app.facts.waking import wake_run
from trainyard.domain.errors import RunNotFound
from trainyard.domain.facts import type_of
from trainyard.domain.kinds import sentence
from trainyard.domain.records import Cluster, Run
from trainyard.ports import Ports
from trainyard_contracts.events import (
    AgentEvent,
    CheckpointCommitted,
    CheckpointPruned,
    CheckpointRejected,
    ExportFinished,
    RunEvent,
    RunRestored,
)


def record_state(ports: Ports, cluster: Cluster, event: AgentEvent) -> Recorded:
    event = _placed(event, cluster.created_at, ports.clock.now())
    if not isinstance(
        event, (RunEvent, ExportFinished)
    ):  # the event is about a node or the whole cluster, even where it names the run that it met
        return record_cluster_fact(ports, cluster, event)
    try:
        run = ports.runs.get(event.run_id)
    except RunNotFound:
        return dropped(event, "no such run")
    if run.cluster_name != cluster.name:
        return dropped(event, "the run is on another cluster")
    if isinstance(event, RunEvent) and event.attempt > max(
        (attempt.number for attempt in run.attempts), default=0
    ):
        return dropped(event, f"the run has no attempt {event.attempt}")
    if isinstance(event, (CheckpointCommitted, CheckpointPruned)):
        return record_listed(ports, run, event)
    if isinstance(event, RunRestored):
        forget_the_rest(ports, run, event)
    if run.terminal:
        return dropped(event, f"the run is {run.status}")
    return _run_fact(ports, run, event)


def _run_fact(ports: Ports, run: Run, event: AgentEvent) -> Recorded:
    if isinstance(event, CheckpointRejected):
        ports.runs.put_checkpoint(run.id, checkpoint_of(event))
    new = ports.runs.record(run.id, event, sentence(event))
    # A duplicate wakes too: the first delivery may have died between its record and its wake.
    woken = wake_run(ports, run.id, type(event))
    reason = "fact of the run" if new else "known already"
    return Recorded(
        "recorded",
        reason,
        type_of(event),
        event.id,
        run.cluster_name,
        run.id,
        (run.id,) if woken else (),
    )


def _placed(event: AgentEvent, made_at: datetime, now: datetime) -> AgentEvent:
    """The event with a time that our clock allows: after its cluster was made, not in the future.

    A node's clock may be wrong. Then we take the time at which the event came, and move every other
    time in it by as much.
    """
    if made_at <= event.at <= now:
        return event
    return event.moved(now - event.at)

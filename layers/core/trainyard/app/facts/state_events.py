"""Facts of runs and of clusters, with the lines of the timeline that tell them."""

from __future__ import annotations

from datetime import datetime

from trainyard.app.facts.recorded import Recorded, dropped
from trainyard.app.facts.situation import all_checkpoints
from trainyard.app.facts.waking import wake_cluster, wake_run
from trainyard.domain.errors import RunNotFound
from trainyard.domain.facts import attempt_of, data_of, type_of
from trainyard.domain.kinds import kind_of, sentence
from trainyard.domain.records import Checkpoint, Cluster, Run, TimelineEntry
from trainyard.ports import Ports
from trainyard_contracts.events import (
    AgentEvent,
    CheckpointCommitted,
    CheckpointPruned,
    CheckpointRejected,
    ClusterReady,
    ExportFinished,
    MeetingEvent,
    RunEvent,
    RunRestored,
)


def record_state(ports: Ports, cluster: Cluster, event: AgentEvent) -> Recorded:
    event = _placed(event, cluster.created_at, ports.clock.now())
    if not isinstance(
        event, (RunEvent, ExportFinished)
    ):  # the event is about a node or the whole cluster, even where it names the run that it met
        return _cluster_fact(ports, cluster, event)
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
        return _listed(ports, run, event)
    if isinstance(event, RunRestored):
        _forget_the_rest(ports, run, event)
    if run.terminal:
        return dropped(event, f"the run is {run.status}")
    return _run_fact(ports, run, event)


def _cluster_fact(ports: Ports, cluster: Cluster, event: AgentEvent) -> Recorded:
    """Record a fact of the cluster with the cluster and with every run on it."""
    ports.clusters.record(cluster.name, event)
    woken = []
    for run in ports.runs.on_cluster(cluster.name):
        ports.runs.record(run.id, _as_met_by(run, event), sentence(event))
        if not isinstance(event, ClusterReady) and wake_run(ports, run.id, type(event)):
            woken.append(run.id)
    if "in-service" in kind_of(type(event)).wakes and wake_cluster(
        ports, cluster.name, type(event)
    ):
        woken.append(cluster.name)
    return Recorded(
        "recorded",
        "fact of the cluster",
        type_of(event),
        event.id,
        cluster.name,
        woken=tuple(woken),
    )


def _as_met_by(run: Run, event: AgentEvent) -> AgentEvent:
    """What happened on a cluster met the attempt of one of its runs.

    To the others it says nothing of any.
    """
    if (
        not isinstance(event, MeetingEvent) or event.attempt is None or event.run_id == run.id
    ):  # no attempt, or this run's own
        return event
    return event.changed(run_id=None, attempt=None)


def _listed(ports: Ports, run: Run, event: CheckpointCommitted | CheckpointPruned) -> Recorded:
    """Keep a checkpoint in the run's list, and not as a fact.

    Every decision reads all facts, and a long run commits a hundred thousand checkpoints; decisions
    read only the newest of them. An ended run's list is kept true, too: the agent verifies the last
    checkpoints, and prunes the oldest, after it has reported the job's end.
    """
    ports.runs.put_checkpoint(run.id, _checkpoint(event))
    if isinstance(event, CheckpointCommitted):  # the removal of an old checkpoint is no news
        ports.runs.note(run.id, _line(event))
    return Recorded(
        "recorded", "checkpoint of the run", type_of(event), event.id, run.cluster_name, run.id
    )


def _forget_the_rest(ports: Ports, run: Run, event: RunRestored) -> None:
    """The checkpoints of earlier attempts that were not brought are gone with their filesystem.

    An agent that does not name what it brought leaves them as they are.
    """
    if event.brought is None:
        return
    for found in all_checkpoints(ports, run.id):
        earlier = found.status == "whole" and found.attempt < event.attempt
        if earlier and found.path not in event.brought:
            ports.runs.put_checkpoint(run.id, found.changed(status="pruned"))


def _run_fact(ports: Ports, run: Run, event: AgentEvent) -> Recorded:
    if isinstance(event, CheckpointRejected):
        ports.runs.put_checkpoint(run.id, _checkpoint(event))
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


def _line(fact: AgentEvent) -> TimelineEntry:
    return TimelineEntry(
        id=fact.id,
        at=fact.at,
        kind="fact",
        type=type_of(fact),
        message=sentence(fact),
        attempt=attempt_of(fact),
        data=data_of(fact),
    )


def _checkpoint(event: CheckpointCommitted | CheckpointPruned | CheckpointRejected) -> Checkpoint:
    found = Checkpoint(
        step=event.step,
        attempt=event.attempt,
        path=event.path,
        bytes=0,
        files=0,
        committed_at=event.at,
    )
    if isinstance(event, CheckpointCommitted):
        return found.changed(
            bytes=event.bytes,
            files=event.files,
            committed_at=event.committed_at,
            counted=event.counted,
        )
    if isinstance(event, CheckpointRejected):
        return found.changed(status="rejected", reason=event.reason, counted=event.counted)
    return found.changed(status="pruned")

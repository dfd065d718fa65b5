"""Record what happened, once, and wake the machine that waits for it; nothing else.

So nothing races.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from trainyard.app.facts.situation import all_checkpoints, silent_since
from trainyard.app.facts.waking import wake_cluster, wake_run
from trainyard.domain.capacity import first_word
from trainyard.domain.errors import ClusterNotFound, RunNotFound, TrainyardError
from trainyard.domain.facts import (
    Book,
    ClusterEvent,
    ClusterState,
    attempt_of,
    data_of,
    run_of,
    type_of,
)
from trainyard.domain.kinds import kind_of, sentence
from trainyard.domain.records import Checkpoint, Cluster, Run, TimelineEntry
from trainyard.outside.seen_clusters import BackendEvent
from trainyard.ports import Ports
from trainyard_contracts import places
from trainyard_contracts.events import (
    SOURCE,
    AgentEvent,
    CheckpointCommitted,
    CheckpointPruned,
    CheckpointRejected,
    ClusterHeartbeat,
    ClusterReady,
    ExportFinished,
    Fact,
    MeetingEvent,
    RunEvent,
    RunRestored,
    mistakes,
    parse_agent_event,
)
from trainyard_contracts.signatures import is_signed

#: What a cluster can be called; with anything else nothing need be asked of the table.
_NAME = re.compile(r"[A-Za-z0-9-]{1,63}")


@dataclass(frozen=True)
class Recorded:
    """What became of an event: `recorded` or `dropped`, and why.

    A dropped event changed nothing and is not retried.
    """

    result: str
    reason: str
    type: str = ""
    fact_id: str = ""
    cluster: str = ""
    run: str = ""
    woken: tuple[str, ...] = ()


def record_fact(ports: Ports, envelope: Mapping[str, Any]) -> Recorded:
    """Record one EventBridge event.

    Malformed, foreign or late events are dropped with a reason, never raised.
    """
    if envelope.get("source") == SOURCE:
        return _agent_event(ports, envelope)
    for name, backend in ports.backends.items():
        read = backend.read_event(envelope, ports.clock.now())
        if read is not None:
            return _backend_event(ports, name, str(envelope.get("detail-type"))[:100], read)
    return Recorded("dropped", f"source {str(envelope.get('source'))[:100]!r} is not one of ours")


def _agent_event(ports: Ports, envelope: Mapping[str, Any]) -> Recorded:
    kind = str(envelope.get("detail-type"))[:100]
    try:
        event = parse_agent_event(kind, envelope["detail"])
    except KeyError:
        return Recorded("dropped", f"unknown detail-type {kind!r} or no detail", kind)
    except ValidationError as error:
        return Recorded("dropped", _malformed(error.errors()), kind)
    try:
        cluster = ports.clusters.get(event.cluster_name)
    except ClusterNotFound:
        return _dropped(event, "no such cluster")
    if cluster.arn is not None and event.cluster_arn != cluster.arn:
        return _dropped(event, "it is from another cluster of this name")
    if cluster.status == "Deleted":
        if isinstance(event, ClusterHeartbeat):
            ports.clusters.put_heartbeat(event)  # what still speaks is no orphan
        return _dropped(event, "the cluster is deleted")
    if refused := _unbelieved(ports, cluster, kind, envelope["detail"]):
        return _dropped(event, refused)
    if isinstance(event, ClusterHeartbeat):
        return _heartbeat(ports, cluster, event)
    return _state_event(ports, cluster, event)


def _malformed(found: Sequence[Mapping[str, Any]]) -> str:
    fields = ", ".join(".".join(map(str, item["loc"])) for item in found[:5])
    return f"malformed: {fields}"


def _unbelieved(ports: Ports, cluster: Cluster, kind: str, detail: Mapping[str, Any]) -> str:
    """'' if the cluster's own agent sent this event, or why we do not believe it.

    Every node of every cluster may put events on the bus, so only a sender with the cluster's key
    speaks for it. A cluster that was made before agents signed is believed unsigned. The key is
    looked up again once, because an earlier cluster of this name had another key.
    """
    if not cluster.signs_events:
        return ""
    if "signature" not in detail:
        return "it is not signed"
    name = places.agent_key_secret(ports.config.secret_prefix, cluster.name)
    for fresh in (False, True):
        key = ports.secrets.read(name, fresh=fresh)
        if key is not None and is_signed(kind, detail, key.encode()):
            return ""
    return "its signature is not the cluster's" if key else "its cluster has no key"


def _heartbeat(ports: Ports, cluster: Cluster, event: ClusterHeartbeat) -> Recorded:
    ports.clusters.put_heartbeat(event)
    # A node's clock may be ahead, so our own clock decides liveness.
    now = ports.clock.now()
    if last := silent_since(ports, cluster):
        _tell_return(ports, cluster, last, now)
    ports.clusters.touch(
        event.cluster_name, heartbeat_at=now, used_at=now if _in_use(event) else None
    )
    return Recorded("recorded", "heartbeat", "ClusterHeartbeat", event.id, event.cluster_name)


def _in_use(event: ClusterHeartbeat) -> bool:
    """A run trains, or a person's job runs.

    Queued ones keep the cluster too, but not for ever (app/clusters/cluster_use.py).
    """
    return bool(event.runs) or (event.other_jobs is not None and event.other_jobs.running > 0)


def _tell_return(ports: Ports, cluster: Cluster, last: datetime, now: datetime) -> None:
    silence = f"{(now - last).total_seconds():.0f} s of silence"
    message = f"The controller of cluster '{cluster.name}' is heard again, after {silence}."
    entry = TimelineEntry(
        id=f"controller-back-{cluster.name}-{last:%Y%m%dT%H%M%S%f}",
        at=now,
        kind="status",
        type="ControllerBack",
        message=message,
    )
    for run in ports.runs.on_cluster(cluster.name):
        ports.runs.note(run.id, entry)


def _state_event(ports: Ports, cluster: Cluster, event: AgentEvent) -> Recorded:
    event = _placed(event, cluster.created_at, ports.clock.now())
    if not isinstance(
        event, (RunEvent, ExportFinished)
    ):  # the event is about a node or the whole cluster, even where it names the run that it met
        return _cluster_fact(ports, cluster, event)
    try:
        run = ports.runs.get(event.run_id)
    except RunNotFound:
        return _dropped(event, "no such run")
    if run.cluster_name != cluster.name:
        return _dropped(event, "the run is on another cluster")
    if isinstance(event, RunEvent) and event.attempt > max(
        (attempt.number for attempt in run.attempts), default=0
    ):
        return _dropped(event, f"the run has no attempt {event.attempt}")
    if isinstance(event, (CheckpointCommitted, CheckpointPruned)):
        return _listed(ports, run, event)
    if isinstance(event, RunRestored):
        _forget_the_rest(ports, run, event)
    if run.terminal:
        return _dropped(event, f"the run is {run.status}")
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


def _backend_event(ports: Ports, backend: str, kind: str, read: BackendEvent | str) -> Recorded:
    if isinstance(read, str):
        return Recorded("dropped", read, kind)
    if found := mistakes(read.fact):
        return Recorded("dropped", _malformed(found), kind)
    if read.run_id:
        return _job_event(ports, kind, read)
    if not _NAME.fullmatch(read.cluster_name):
        return Recorded("dropped", "malformed: the cluster's name", kind)
    try:
        cluster = ports.clusters.get(read.cluster_name)
    except ClusterNotFound:
        return Recorded("dropped", "not a cluster of ours", kind, read.fact.id, read.cluster_name)
    if cluster.backend != backend or not _is_of(read, cluster):
        return Recorded(
            "dropped",
            "it is from another cluster of this name",
            kind,
            read.fact.id,
            read.cluster_name,
        )
    read = _with_reason(ports, cluster, read)
    line = sentence(read.fact)
    ports.clusters.record(cluster.name, read.fact)
    if not isinstance(read.fact, ClusterState):
        for run in ports.runs.on_cluster(cluster.name):
            ports.runs.record(run.id, read.fact, line)
            if _lacks_nodes(cluster, read.fact):
                wake_run(ports, run.id)
    woken = wake_cluster(
        ports, cluster.name, None if _first_refusal(ports, cluster, read.fact) else type(read.fact)
    )
    return Recorded(
        "recorded",
        line,
        type_of(read.fact),
        read.fact.id,
        cluster.name,
        woken=(cluster.name,) if woken else (),
    )


def _job_event(ports: Ports, kind: str, read: BackendEvent) -> Recorded:
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


def _is_of(read: BackendEvent, cluster: Cluster) -> bool:
    if read.mark:
        return read.mark == cluster.mark
    return cluster.arn is None or read.cluster_arn == cluster.arn


def _first_refusal(ports: Ports, cluster: Cluster, fact: Fact) -> bool:
    """Whether AWS says for the first time that it has no capacity for a try.

    Its time runs from now, so the cluster's machine must look.
    """
    if not cluster.tries or not isinstance(fact, ClusterEvent):
        return False
    told = Book(ports.clusters.facts(cluster.name)).of(ClusterEvent)
    first = first_word(one for one in told if one.at >= cluster.created_at)
    return first is not None and first.id == fact.id


def _lacks_nodes(cluster: Cluster, fact: Fact) -> bool:
    """Whether a job may wait for what AWS refuses: the run decides how long it does."""
    return cluster.status == "Ready" and isinstance(fact, ClusterEvent)


def _with_reason(ports: Ports, cluster: Cluster, read: BackendEvent) -> BackendEvent:
    """Add why a node could not be provisioned: only DescribeClusterEvent gives the reason.

    An event that cannot be described stays as it is.
    """
    if not isinstance(read.fact, ClusterEvent) or not read.fact.event_id:
        return read
    try:
        reason = ports.backend(cluster).event_reason(cluster.name, read.fact.event_id)
    except TrainyardError:
        return read
    if not reason:
        return read
    return replace(read, fact=read.fact.changed(failure_message=reason[:1000]))


def _dropped(event: AgentEvent, reason: str) -> Recorded:
    return Recorded(
        "dropped",
        reason,
        type_of(event),
        event.id,
        event.cluster_name,
        run_of(event) or "",
    )

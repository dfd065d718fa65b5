"""The lines of a timeline, and checkpoints that are listed there."""

from __future__ import annotations

from trainyard.app.facts.recorded import Recorded
from trainyard.app.facts.situation import all_checkpoints
from trainyard.domain.facts import attempt_of, data_of, type_of
from trainyard.domain.kinds import sentence
from trainyard.domain.records import Checkpoint, Run, TimelineEntry
from trainyard.ports import Ports
from trainyard_contracts.events import (
    AgentEvent,
    CheckpointCommitted,
    CheckpointPruned,
    CheckpointRejected,
    RunRestored,
)


def record_listed(
    ports: Ports, run: Run, event: CheckpointCommitted | CheckpointPruned
) -> Recorded:
    """Keep a checkpoint in the run's list, and not as a fact.

    Every decision reads all facts, and a long run commits a hundred thousand checkpoints; decisions
    read only the newest of them. An ended run's list is kept true, too: the agent verifies the last
    checkpoints, and prunes the oldest, after it has reported the job's end.
    """
    ports.runs.put_checkpoint(run.id, checkpoint_of(event))
    if isinstance(event, CheckpointCommitted):  # the removal of an old checkpoint is no news
        ports.runs.note(run.id, line_of(event))
    return Recorded(
        "recorded", "checkpoint of the run", type_of(event), event.id, run.cluster_name, run.id
    )


def forget_the_rest(ports: Ports, run: Run, event: RunRestored) -> None:
    """The checkpoints of earlier attempts that were not brought are gone with their filesystem.

    An agent that does not name what it brought leaves them as they are.
    """
    if event.brought is None:
        return
    for found in all_checkpoints(ports, run.id):
        earlier = found.status == "whole" and found.attempt < event.attempt
        if earlier and found.path not in event.brought:
            ports.runs.put_checkpoint(run.id, found.changed(status="pruned"))


def line_of(fact: AgentEvent) -> TimelineEntry:
    return TimelineEntry(
        id=fact.id,
        at=fact.at,
        kind="fact",
        type=type_of(fact),
        message=sentence(fact),
        attempt=attempt_of(fact),
        data=data_of(fact),
    )


def checkpoint_of(event: CheckpointCommitted | CheckpointPruned | CheckpointRejected) -> Checkpoint:
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

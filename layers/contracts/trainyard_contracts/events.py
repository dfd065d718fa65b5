"""The agents' events on the bus, one class for each detail-type."""

from typing import Any

from pydantic import ValidationError

from .attempt_ended import AttemptEnded
from .attempt_events import AttemptQueued, AttemptStarted, AttemptStepped, JobAhead
from .checkpoint_events import (
    CheckpointCommitted,
    CheckpointPruned,
    CheckpointRejected,
    CheckpointRestored,
    WatchWarned,
)
from .cluster_events import ClusterReady, NodesChanged
from .event_bases import SOURCE, AgentEvent, Fact, MeetingEvent, RunEvent
from .heartbeats import MOST_EVENT_BYTES, ClusterHeartbeat, Gpu, NodeSample, OtherJobs, RunSample
from .node_events import AgentBack, AgentSilent, NodeLost, NodeReturned, NodeUnhealthy
from .node_evidence import NodeEvent, NodeEvidence
from .result_events import CodeFetched, ExportFinished, ResultsSynced, RunRestored, SyncFailed
from .storable import LARGEST_NUMBER, LONGEST_ID, YEARS, Place, mistakes

__all__ = [
    "LARGEST_NUMBER",
    "LONGEST_ID",
    "MOST_EVENT_BYTES",
    "SOURCE",
    "YEARS",
    "AgentBack",
    "AgentEvent",
    "AgentSilent",
    "AttemptEnded",
    "AttemptQueued",
    "AttemptStarted",
    "AttemptStepped",
    "CheckpointCommitted",
    "CheckpointPruned",
    "CheckpointRejected",
    "CheckpointRestored",
    "ClusterHeartbeat",
    "ClusterReady",
    "CodeFetched",
    "ExportFinished",
    "Fact",
    "Gpu",
    "JobAhead",
    "MeetingEvent",
    "NodeEvent",
    "NodeEvidence",
    "NodeLost",
    "NodeReturned",
    "NodeSample",
    "NodeUnhealthy",
    "NodesChanged",
    "OtherJobs",
    "Place",
    "ResultsSynced",
    "RunEvent",
    "RunRestored",
    "RunSample",
    "SyncFailed",
    "WatchWarned",
    "mistakes",
]


AGENT_EVENTS: dict[str, type[AgentEvent]] = {
    cls.__name__: cls
    for cls in (
        ClusterReady, AttemptQueued, AttemptStarted, AttemptStepped, CheckpointCommitted,
        CheckpointRejected, CheckpointPruned, CheckpointRestored, WatchWarned,
        CodeFetched, ResultsSynced, SyncFailed, RunRestored, AttemptEnded,
        NodeLost, NodeReturned, NodesChanged, AgentSilent, AgentBack, NodeUnhealthy,
        ExportFinished, ClusterHeartbeat,
    )
}  # fmt: skip


def parse_agent_event(detail_type: str, detail: dict[str, Any]) -> AgentEvent:
    """Parse an agent event by its detail-type.

    Raises KeyError for an unknown detail-type and pydantic.ValidationError for a malformed detail,
    also for one that is of the right types and cannot be stored.
    """
    event = AGENT_EVENTS[detail_type].model_validate(detail)
    if found := mistakes(event):
        raise ValidationError.from_exception_data(detail_type, found)
    return event

"""Facts in sentences that a person understands; one entry per event."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainyard.domain.causes import describe, waiting_sentence
from trainyard_contracts import events
from trainyard_contracts.events import AgentEvent


def message(event: AgentEvent) -> str:
    """The timeline line of an agent's event."""
    writer = WRITERS.get(type(event))
    return writer(event) if writer else type(event).__name__


def listed(names: Sequence[str], most: int = 16) -> str:
    """'a, b', and of more than a person reads how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def size(count: int) -> str:
    """Bytes in the unit that keeps them short."""
    value, unit = float(count), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _ready(event: events.ClusterReady) -> str:
    return f"The cluster is ready: {len(event.nodes)} nodes joined Slurm ({listed(event.nodes, 8)})."


def _queued(event: events.AttemptQueued) -> str:
    return waiting_sentence(event.attempt, event.model_dump(by_alias=True))


def _started(event: events.AttemptStarted) -> str:
    return f"Attempt {event.attempt} runs as job {event.job_id} on {listed(event.nodes)}.{setup_sentence(event.waits_for)}"


def setup_sentence(names: Sequence[str]) -> str:
    """' It waits until ip-1 is set up.', or '' if there is nothing to wait for."""
    return f" It waits until {listed(names)} {'is' if len(names) == 1 else 'are'} set up." if names else ""


def _stepped(event: events.AttemptStepped) -> str:
    source = f"resumed from step {event.resumed_from}" if event.resumed_from is not None else "started from the beginning"
    return f"Attempt {event.attempt} trains: it {source} and has finished its first step."


def _committed(event: events.CheckpointCommitted) -> str:
    return f"Checkpoint of step {event.step} is committed and verified: {counted(event.files, 'file')}, {size(event.bytes)}."


def _rejected(event: events.CheckpointRejected) -> str:
    return f"Checkpoint of step {event.step} does not verify ({event.reason}); it will not be resumed from."


def _ended(event: events.AttemptEnded) -> str:
    reason = f": {event.error}" if event.error else (f", killed by signal {event.signal}" if event.signal else "")
    where = f" on {event.failed_node}" if event.failed_node else ""
    step = f" after step {event.last_step}" if event.last_step is not None else ""
    return f"Attempt {event.attempt} (job {event.job_id}) {event.outcome}{where}{step}{reason}."


def _lost(event: events.NodeLost) -> str:
    return f"Node {event.lost.node} is lost: {describe(event.lost.model_dump(by_alias=True))}."


def _members(event: events.NodesChanged) -> str:
    changes = [(event.removed, "no longer has"), (event.added, "has the new")]
    words = " and ".join(f"{verb} {', '.join(names[:8])}" for names, verb in changes if names)
    return f"Slurm {words}: {counted(len(event.nodes), 'node')} now."


def _silent(event: events.AgentSilent) -> str:
    node, detail = event.silent.node, event.silent.detail
    if event.silent.scheduler == "up":
        return f"The agent on {node} is silent, but its Slurm daemon answers: nothing is done to the job."
    known = f" ({detail})" if detail else ""
    return f"The agent on {node} is silent{known}. Whether the node is lost is not known yet: nothing is done to the job."


def _unhealthy(event: events.NodeUnhealthy) -> str:
    if event.severity == "healthy":
        return f"Check '{event.check}' on {event.node} is healthy again."
    return f"Check '{event.check}' on {event.node} reports {event.severity}: {event.detail}"


def _exported(event: events.ExportFinished) -> str:
    if not event.ok:
        return f"The export failed on the cluster: {event.reason}"
    return f"The export is uploaded: {counted(event.objects, 'object')}, {size(event.bytes)}; every object is verified next."


WRITERS: dict[type[AgentEvent], Callable[..., str]] = {
    events.ClusterReady: _ready,
    events.AttemptQueued: _queued,
    events.AttemptStarted: _started,
    events.AttemptStepped: _stepped,
    events.CheckpointCommitted: _committed,
    events.CheckpointRejected: _rejected,
    events.AttemptEnded: _ended,
    events.NodeLost: _lost,
    events.NodeReturned: lambda event: f"Node {event.returned} serves jobs again.",
    events.NodesChanged: _members,
    events.AgentSilent: _silent,
    events.AgentBack: lambda event: f"The agent on {event.back} reports again.",
    events.NodeUnhealthy: _unhealthy,
    events.ExportFinished: _exported,
}

"""What each kind of fact says to a person, and which waits it ends.

A new kind of fact is its class and one entry here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainyard.domain import capacity_facts, cluster_facts, facts, job_facts, order_facts
from trainyard.domain.records import WaitKind
from trainyard.domain.words import (
    because,
    counted,
    describe,
    duration,
    listed,
    mark,
    setup_sentence,
    size,
    taken_back_sentence,
    waiting_sentence,
    who,
    whose,
)
from trainyard_contracts import events, places
from trainyard_contracts.events import Fact


@dataclass(frozen=True)
class Kind:
    """`sentence` is the fact's line in the timeline; `wakes` are the waits that it ends."""

    sentence: Callable[[Any], str]
    wakes: frozenset[WaitKind] = frozenset()


def sentence(fact: Fact) -> str:
    """The timeline line of a fact."""
    return kind_of(type(fact)).sentence(fact)


def kind_of(type_: type[Fact]) -> Kind:
    """The kind of a fact's class; a class without an entry has no sentence and ends no wait."""
    return KINDS.get(type_, _QUIET)


def _ready(event: events.ClusterReady) -> str:
    return (
        f"The cluster is ready: {counted(len(event.nodes), 'node')} joined Slurm "
        f"({listed(event.nodes, 8)})."
    )


def _queued(event: events.AttemptQueued) -> str:
    return waiting_sentence(event)


def _started(event: events.AttemptStarted) -> str:
    return (
        f"Attempt {event.attempt} runs as job {event.job_id} on "
        f"{listed(event.nodes)}.{setup_sentence(event.waits_for)}"
    )


def _stepped(event: events.AttemptStepped) -> str:
    if event.source != "program":
        return f"Attempt {event.attempt} trains: {whose(event.source)} says step {event.step}."
    source = (
        f"resumed from step {event.resumed_from}"
        if event.resumed_from is not None
        else "started from the beginning"
    )
    return f"Attempt {event.attempt} trains: it {source} and has finished its first step."


def _committed(event: events.CheckpointCommitted) -> str:
    if event.source:
        what = mark(event.step, event.counted)
        return (
            f"The program's checkpoint '{event.source}' ({what}) is whole, copied and verified: "
            f"{counted(event.files, 'file')}, {size(event.bytes)}."
        )
    return (
        f"Checkpoint of step {event.step} is committed and verified: "
        f"{counted(event.files, 'file')}, {size(event.bytes)}."
    )


def _rejected(event: events.CheckpointRejected) -> str:
    if event.path.startswith((f"{places.WORK}/", f"{places.OUTPUT}/")):
        return f"The program's checkpoint '{event.path}' is torn: {event.reason}."
    which = f"Copy {event.step}" if event.counted else f"Checkpoint of step {event.step}"
    return f"{which} does not verify ({event.reason}); it will not be resumed from."


def _restored(event: events.CheckpointRestored) -> str:
    aside = f" It is '{event.set_aside}' now." if event.set_aside else ""
    before = f"Before attempt {event.attempt}"
    if not event.path:
        return f"{before}, '{event.source}' was set aside: {event.reason}.{aside}"
    copy = "the copy" if event.step is None else f"the copy of step {event.step}"
    copy = f"copy {event.step}" if event.counted else copy
    return (
        f"{before}, '{event.source}' was put back from {copy}. "
        f"What was there: {event.reason}.{aside}"
    )


def _code(event: events.CodeFetched) -> str:
    ref = "" if event.ref == event.commit else f" ({event.ref})"
    left = (
        f" Its {counted(event.submodules, 'submodule')} are left out." if event.submodules else ""
    )
    return f"The run's code is commit {event.commit} of {event.url}{ref}.{left}"


def _synced(event: events.ResultsSynced) -> str:
    step = f", newest checkpoint of step {event.last_step}" if event.last_step is not None else ""
    left = f" {counted(event.left_out, 'file')} are not copied." if event.left_out else ""
    return (
        f"What the run has so far is in S3: {counted(event.objects, 'file')}, "
        f"{size(event.bytes)}{step}. It is copied every {event.every_seconds:g} s.{left}"
    )


#: By SyncFailed.trouble, what it means and what a person can do.
_SYNC_ADVICE = {
    "denied": "S3 refuses it: look whether the data bucket's policy or its key allows the "
    "cluster's role to read and write below sync/.",
    "unreachable": "S3 does not answer from the controller: look at the subnets' route to S3 (an "
    "S3 gateway endpoint, or NAT).",
    "disk": "The shared filesystem cannot be read: look whether it is full or away.",
    "slow": "A copy takes longer than the interval: what is lost with the cluster may be older. "
    "Raise export.everySeconds, or let the program keep fewer and smaller files.",
    "not-deleted": "What nobody needs any more cannot be deleted and costs storage: look whether "
    "the data bucket's policy allows s3:DeleteObject below sync/.",
}


def _sync_failed(event: events.SyncFailed) -> str:
    advice = _SYNC_ADVICE.get(event.trouble, "It is tried again.")
    if event.trouble in ("slow", "not-deleted"):
        return f"{advice} ({event.reason})"
    behind = (
        "nothing of it yet"
        if event.behind_seconds is None
        else f"what was there {duration(event.behind_seconds)} before"
    )
    return (
        f"What the run makes cannot be copied to S3 now; S3 has {behind}. Training goes on, and it "
        f"is tried again. {advice} ({event.reason})"
    )


def _brought_back(event: events.RunRestored) -> str:
    step = f"the checkpoint of step {event.step} and " if event.step is not None else ""
    source = "copied there" if event.source == "sync" else "exported"
    skipped = f" Not brought: {'; '.join(event.skipped[:3])}." if event.skipped else ""
    none = "" if event.step is not None else " There was no whole checkpoint."
    return (
        f"The shared filesystem had nothing of the run. Before attempt {event.attempt}, "
        f"{step}{counted(event.files, 'file')} ({size(event.bytes)}) were brought from S3, as they "
        f"were {source} {duration(event.age_seconds)} before.{none}{skipped}"
    )


def _ended(event: events.AttemptEnded) -> str:
    reason = (
        f": {event.error}"
        if event.error
        else (f", killed by signal {event.signal}" if event.signal else "")
    )
    where = f" on {event.failed_node}" if event.failed_node else ""
    step = f" after step {event.last_step}" if event.last_step is not None else ""
    remark = f" {event.remark}" if event.remark else ""
    ended = f"Attempt {event.attempt} (job {event.job_id}) {event.outcome}{where}{step}{reason}."
    return f"{ended}{remark}"


def _lost(event: events.NodeLost) -> str:
    if event.taken_back_at is not None:
        return taken_back_sentence(event.about.node, event.taken_back_at)
    return f"Node {event.about.node} is lost: {describe(event.about)}."


def _members(event: events.NodesChanged) -> str:
    changes = [(event.removed, "no longer has"), (event.added, "has the new")]
    words = " and ".join(f"{verb} {', '.join(names[:8])}" for names, verb in changes if names)
    return f"Slurm {words}: {counted(len(event.nodes), 'node')} now."


def _silent(event: events.AgentSilent) -> str:
    node, detail = event.about.node, event.about.detail
    if event.about.scheduler == "up":
        return (
            f"The agent on {node} is silent, but its Slurm daemon answers: "
            "nothing is done to the job."
        )
    known = f" ({detail})" if detail else ""
    return (
        f"The agent on {node} is silent{known}. Whether the node is lost is not known yet: "
        "nothing is done to the job."
    )


def _unhealthy(event: events.NodeUnhealthy) -> str:
    if event.severity == "healthy":
        return f"Check '{event.check}' on {event.node} is healthy again."
    return f"Check '{event.check}' on {event.node} reports {event.severity}: {event.detail}"


def _exported(event: events.ExportFinished) -> str:
    if not event.ok:
        return f"The export failed on the cluster: {event.reason}"
    return (
        f"The export is uploaded: {counted(event.objects, 'object')}, {size(event.bytes)}; "
        "every object is verified next."
    )


def _pruned(event: events.CheckpointPruned) -> str:
    return f"Checkpoint of step {event.step} made room; newer ones are whole."


def _told(event: cluster_facts.ClusterEvent) -> str:
    """The sentence with the reason that only DescribeClusterEvent gives."""
    reason = event.failure_message
    return (
        f"AWS: {event.description.rstrip('.')}: {reason}" if reason else f"AWS: {event.description}"
    )


def _tried(event: capacity_facts.CapacityTried) -> str:
    price = "price not known" if event.hourly_usd is None else f"{event.hourly_usd:g} USD an hour"
    begins = f" It begins at {event.begins_at:%H:%M:%S} UTC." if event.begins_at else ""
    return f"Try {event.number} for capacity: {event.way} ({price}).{begins}"


def _priced(fact: capacity_facts.PriceInForce) -> str:
    name, whose_ = fact.cluster_name, counted(fact.nodes, "node")
    if fact.hourly_usd is None:
        return f"What an hour of cluster '{name}' ({whose_}) costs is not known."
    source = "AWS's price list" if fact.source == "list" else "the spec"
    return f"An hour of cluster '{name}' ({whose_}) costs {fact.hourly_usd:g} USD, by {source}."


def _no_capacity(event: capacity_facts.CapacityRefused) -> str:
    return (
        f"AWS has no capacity for try {event.number} ({event.way}). {event.reason.rstrip('.')}. "
        "What was made of it is deleted before the next try."
    )


def _job_over(fact: job_facts.JobEnded) -> str:
    why = f": {fact.reason.rstrip('.')}" if fact.reason else ""
    if not fact.job_id:
        return f"AWS made no job for attempt {fact.attempt} ({fact.how}){why}."
    return f"AWS says that job {fact.job_id} of attempt {fact.attempt} is over ({fact.how}){why}."


def _health(event: cluster_facts.NodeHealth) -> str:
    judged = f"{event.instance_id} is {event.status} ({event.reason})"
    return f"AWS's health agent says {judged}; its repair action: {event.repair_action}."


def _cancelled(fact: order_facts.CancelRequested) -> str:
    if fact.by is None and fact.reason:
        return f"The run is to be cancelled: {fact.reason}"
    return f"{who(fact.by)} asked to cancel the run.{because(fact.reason)}"


def _kind(text: Callable[[Any], str], *wakes: WaitKind) -> Kind:
    return Kind(text, frozenset(wakes))


_QUIET = _kind(facts.type_of)
#: AttemptStarted ends a wait because a node may be lost while a job starts.
KINDS: dict[type[Fact], Kind] = {
    events.ClusterReady: _kind(_ready, "cluster", "in-service"),
    events.AttemptQueued: _kind(_queued, "outcome"),
    events.AttemptStarted: _kind(_started, "outcome"),
    events.AttemptStepped: _kind(_stepped, "outcome"),
    events.CheckpointCommitted: _kind(_committed),
    events.CheckpointRejected: _kind(_rejected, "outcome"),
    events.CheckpointPruned: _kind(_pruned),
    events.CheckpointRestored: _kind(_restored),
    events.WatchWarned: _kind(lambda event: event.reason),
    events.CodeFetched: _kind(_code),
    events.ResultsSynced: _kind(_synced),
    events.SyncFailed: _kind(_sync_failed),
    events.RunRestored: _kind(_brought_back),
    events.AttemptEnded: _kind(_ended, "outcome"),
    events.NodeLost: _kind(_lost, "outcome"),
    events.NodeReturned: _kind(
        lambda event: f"Node {event.about.node} serves jobs again.", "outcome"
    ),
    events.NodesChanged: _kind(_members, "outcome"),
    events.AgentSilent: _kind(_silent),
    events.AgentBack: _kind(lambda event: f"The agent on {event.about.node} reports again."),
    events.NodeUnhealthy: _kind(_unhealthy, "cluster"),
    events.ExportFinished: _kind(_exported, "outcome", "export"),
    cluster_facts.ClusterState: _kind(
        lambda fact: f"AWS says the cluster is {fact.status}.", "in-service", "deleted"
    ),
    cluster_facts.ClusterEvent: _kind(_told),
    cluster_facts.LifecycleFailed: _kind(_told, "in-service"),
    cluster_facts.NodeHealth: _kind(_health),
    job_facts.JobStage: _kind(lambda fact: f"Attempt {fact.attempt}: {fact.words}.", "outcome"),
    job_facts.JobEnded: _kind(_job_over, "outcome"),
    cluster_facts.ClusterFailed: _kind(
        lambda fact: f"Cluster '{fact.cluster_name}' failed: {fact.reason}", "cluster", "outcome"
    ),
    capacity_facts.CapacityTried: _kind(_tried, "cluster"),
    capacity_facts.CapacityRefused: _kind(_no_capacity),
    cluster_facts.ArchiveEnded: _kind(lambda fact: fact.words, "teardown", "deleted"),
    cluster_facts.ClusterLost: _kind(lambda fact: fact.reason, "cluster", "outcome", "export"),
    capacity_facts.PriceInForce: _kind(_priced, "cluster", "outcome"),
    capacity_facts.TryGone: _kind(
        lambda fact: f"What was made of cluster '{fact.cluster_name}' is gone; nothing is billed."
    ),
    cluster_facts.ClusterDeleted: _kind(
        lambda fact: f"Cluster '{fact.cluster_name}' is deleted.",
        "cluster",
        "outcome",
        "export",
        "teardown",
        "deleted",
    ),
    order_facts.CancelRequested: _kind(_cancelled, "cluster", "outcome", "export"),
    order_facts.ExportRequested: _kind(
        lambda fact: f"{who(fact.by)} asked for an export.", "outcome"
    ),
    order_facts.TeamBudgetSpent: _kind(lambda fact: fact.reason, "cluster", "outcome", "export"),
    order_facts.ResumeRequested: _kind(lambda fact: f"{who(fact.by)} resumed the run."),
}

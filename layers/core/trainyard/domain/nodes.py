"""The nodes of a run: which it may use, which a waiting job avoids, which are asked for anew."""

from __future__ import annotations

from datetime import datetime, timedelta

from trainyard.domain.cluster_facts import NodeHealth
from trainyard.domain.decisions import Draft
from trainyard.domain.node_evidence import gone_nodes
from trainyard.domain.records import Action, Attempt, Cluster, Run
from trainyard_contracts.events import (
    AttemptEnded,
    AttemptQueued,
    Fact,
    NodeLost,
    NodeReturned,
    NodesChanged,
)

#: A node under suspicion is spared for this long. Then it is used again, since no other has become
#: free.
SUSPECTS_SECONDS = 60


def bad_nodes(draft: Draft) -> list[str]:
    """Slurm nodes the next attempt must not use: lost now, or excluded as suspects."""
    members = draft.book.members()
    gone = gone_nodes(members, draft.run.excluded_nodes) if members else set()
    return sorted({*draft.book.lost_nodes(), *draft.run.excluded_nodes} - gone)


def total_nodes(draft: Draft, cluster: Cluster) -> int:
    """Worker nodes, spares included, of the run's partition (of all when it names none).

    They are those that Slurm has, as far as it said.
    """
    return nodes_of(cluster, draft.book.members(), draft.run.spec.job.partition)


def partition_of(cluster: Cluster, wanted: str | None) -> str | None:
    """The partition of a job that names this one or none; None where that cannot be said."""
    return wanted or (cluster.spec.partitions[0] if len(cluster.spec.partitions) == 1 else None)


def nodes_of(cluster: Cluster, members: NodesChanged | None, wanted: str | None) -> int:
    """As total_nodes, of the partition that a job names, or of all."""
    partition = partition_of(cluster, wanted)
    counts = members.partitions if members else {}
    if partition in counts:
        return counts[partition]
    groups = [group for group in cluster.spec.groups() if group.role == "worker"]
    return sum(
        group.count + group.spares
        for group in groups
        if wanted in (None, cluster.spec.partition_of(group))
    )


def usable_nodes(draft: Draft, without: set[str] | None = None) -> int:
    """Nodes left for the run.

    A bad node counts where it is of the run's partition. Where its name does not say that, it
    counts in a cluster of one partition, or if the run was on it.
    """
    if draft.cluster is None:
        return 0
    spec = draft.cluster.spec
    bad = {*bad_nodes(draft), *(without or set())}
    partitions = {spec.partition_of(group) for group in spec.groups() if group.role == "worker"}
    if len(partitions) > 1:
        used = {*draft.run.former_nodes, *_nodes_of_attempts(draft)}
        wanted = draft.run.spec.job.partition
        own = {node: spec.partition_of_node(node) for node in bad}
        bad = {
            node
            for node, name in own.items()
            if (node in used if name is None else wanted in (None, name))
        }
    return max(0, total_nodes(draft, draft.cluster) - len(bad))


def _nodes_of_attempts(draft: Draft) -> set[str]:
    return {node for attempt in draft.run.attempts for node in attempt.nodes}


def enough_nodes(draft: Draft, without: set[str] | None = None) -> bool:
    return usable_nodes(draft, without) >= draft.run.spec.job.nodes


def queued(draft: Draft) -> AttemptQueued | None:
    """The latest report on the newest attempt's job in the queue; None if none is known."""
    attempt = draft.attempt
    return (
        draft.book.last(AttemptQueued, attempt=attempt.number)
        if attempt is not None and attempt.waits
        else None
    )


def without_exclusions(draft: Draft) -> None:
    """Forget what was planned for a job that waited: it is planned anew from what is known now."""
    left = [action for action in draft.run.actions if action.kind != "exclude"]
    if len(left) < len(draft.run.actions):
        draft.change(actions=left)


def review_exclusions(draft: Draft, attempt: Attempt) -> None:
    """Let a waiting job exclude the nodes that are bad now, and not those at its submission."""
    nodes = sorted({*draft.book.lost_nodes(), *_suspects(draft, attempt)})
    if set(nodes) == set(attempt.exclude):
        return
    news: Fact | None = draft.book.last(NodeLost, NodeReturned, AttemptEnded)
    action_id = f"exclude-{attempt.number}-{news.id if news else 'none'}-{len(nodes)}"
    draft.act(
        Action(
            id=action_id,
            kind="exclude",
            attempt=attempt.number,
            nodes=nodes,
            reason=_reason(attempt, nodes),
        )
    )


def _suspects(draft: Draft, attempt: Attempt) -> set[str]:
    """Nodes that the attempt avoids although they are not lost.

    None are left once it has waited long enough, or the node came back.
    """
    assert attempt.submitted_at is not None
    back = {
        fact.about.node for fact in draft.book.of(NodeReturned) if fact.at > attempt.submitted_at
    }
    suspects = set(attempt.exclude) - set(attempt.down) - back
    until = attempt.submitted_at + timedelta(seconds=SUSPECTS_SECONDS)
    if not suspects or draft.now >= until:
        return set()
    draft.by(until)
    return suspects


def _reason(attempt: Attempt, nodes: list[str]) -> str:
    freed, barred = (
        sorted(set(attempt.exclude) - set(nodes)),
        sorted(set(nodes) - set(attempt.exclude)),
    )
    words = [
        f"may use {', '.join(freed)} again" if freed else "",
        f"must not use {', '.join(barred)}" if barred else "",
    ]
    return " and ".join(word for word in words if word)


def excluded(run: Run, action: Action) -> Run:
    """The run after an action was done: the attempt excludes the nodes that Slurm now excludes."""
    attempt = run.attempt
    if action.kind != "exclude" or attempt is None or attempt.number != action.attempt:
        return run
    down = sorted({*attempt.down, *(set(action.nodes) - set(attempt.exclude))})
    changed = attempt.changed(exclude=list(action.nodes), down=down)
    return run.changed(attempts=[*run.attempts[:-1], changed])


def review_replacements(draft: Draft) -> None:
    """Forget replacements of nodes that are back.

    Hold back those of nodes that the backend may be repairing.
    """
    lost = draft.book.lost_nodes()
    needed = [
        action for action in draft.run.actions if action.kind != "replace" or action.node in lost
    ]
    if len(needed) < len(draft.run.actions):
        draft.change(actions=needed)
    for action in needed:
        until = _until(draft, action, lost[action.node]) if action.kind == "replace" else None
        if until is not None and draft.now < until:
            _hold(draft, action, until)


def _until(draft: Draft, action: Action, lost: Fact) -> datetime | None:
    repair = draft.cluster.spec.node_repair if draft.cluster is not None else None
    if repair is None:
        return None
    grace = timedelta(seconds=repair.grace_seconds)
    back = max(
        (fact.at for fact in draft.book.of(NodeReturned) if fact.about.node == action.node),
        default=None,
    )
    # A repair that was announced before the node's last return is over.
    since = max(filter(None, (back, lost.at - grace)))
    said = [
        fact for fact in draft.book.of(NodeHealth) if _repairs(fact, action) and fact.at >= since
    ]
    until = lost.at + grace
    announced = timedelta(seconds=repair.announced_seconds)
    return max(until, said[-1].at + announced) if said else until


def _repairs(fact: NodeHealth, action: Action) -> bool:
    announced = fact.repair_action.lower()  # older facts have the backend's own spelling
    return fact.instance_id == action.instance_id != "" and announced in ("reboot", "replace")


def _hold(draft: Draft, action: Action, until: datetime) -> None:
    draft.held.add(action.id)
    draft.by(until)
    if draft.handle_once(f"held-{action.id}"):
        draft.note(
            f"held-{action.id}",
            "RepairAwaited",
            "AWS repairs this cluster's nodes itself: another node is asked for "
            f"if {action.node} is not back by {until:%H:%M:%S} UTC.",
        )

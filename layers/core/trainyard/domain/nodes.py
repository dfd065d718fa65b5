"""The nodes of a run: which it may use, which a waiting job avoids, which are asked for anew."""

from __future__ import annotations

from trainyard.domain.decisions import Draft
from trainyard.domain.node_evidence import gone_nodes
from trainyard.domain.records import Cluster
from trainyard_contracts.events import AttemptQueued, NodesChanged


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

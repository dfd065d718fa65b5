"""Which nodes an attempt may use, and whether they are enough."""

from __future__ import annotations

from trainyard.domain.decisions import Draft
from trainyard.domain.facts import gone_nodes
from trainyard.domain.records import Cluster


def bad_nodes(draft: Draft) -> list[str]:
    """Slurm nodes the next attempt must not use: lost now, or excluded as suspects."""
    members = draft.book.members()
    gone = gone_nodes(members, draft.run.excluded_nodes) if members else set()
    return sorted({*draft.book.lost_nodes(), *draft.run.excluded_nodes} - gone)


def total_nodes(draft: Draft, cluster: Cluster) -> int:
    """Worker nodes, spares included, of the run's partition (of all when it names none).

    They are those that Slurm has, as far as it said.
    """
    run, members = draft.run, draft.book.members()
    partition = run.spec.job.partition or (
        cluster.spec.partitions[0] if len(cluster.spec.partitions) == 1 else None
    )
    counts = members.partitions if members else {}
    if partition in counts:
        return counts[partition]
    wanted = run.spec.job.partition
    groups = [group for group in cluster.spec.instance_groups if group.role == "worker"]
    return sum(
        group.count + group.spares
        for group in groups
        if wanted in (None, cluster.spec.partition_of(group))
    )


def usable_nodes(draft: Draft, without: set[str] | None = None) -> int:
    """Nodes left for the run.

    A bad node elsewhere counts only in a cluster of one partition, or if the run was on it.
    """
    if draft.cluster is None:
        return 0
    bad = {*bad_nodes(draft), *(without or set())}
    partitions = {
        draft.cluster.spec.partition_of(group)
        for group in draft.cluster.spec.instance_groups
        if group.role == "worker"
    }
    if len(partitions) > 1:
        bad &= {
            *draft.run.former_nodes,
            *(node for attempt in draft.run.attempts for node in attempt.nodes),
        }
    return max(0, total_nodes(draft, draft.cluster) - len(bad))


def enough_nodes(draft: Draft, without: set[str] | None = None) -> bool:
    return usable_nodes(draft, without) >= draft.run.spec.job.nodes

"""Give the turns on a shared cluster for which there is room, and wake the runs that got theirs.

Two that do it at once never give the same room twice: the record of the turns is written under its
version. A process that dies after the write leaves runs that the sweep wakes.
"""

from __future__ import annotations

from trainyard.app.facts.waking import wake_run
from trainyard.domain import turns
from trainyard.domain.book import Book
from trainyard.domain.errors import ClusterNotFound, ConflictError, RecordUnreadable, RunNotFound
from trainyard.domain.nodes import nodes_of, partition_of
from trainyard.domain.records import Cluster, Run
from trainyard.domain.turn_records import Turns
from trainyard.ports import Ports

#: Each run that begins or ends on the cluster writes the record, perhaps many at once.
_TRIES = 8


def give_turns(ports: Ports, cluster_name: str, asking: Run | None = None) -> Turns | None:
    """The turns after it; None where the cluster has none now. Again changes nothing.

    `asking` is a run that lists may not have yet. Raises ConflictError if others keep changing it.
    """
    try:
        cluster = ports.clusters.get(cluster_name)
    except ClusterNotFound:
        return None
    if cluster.status != "Ready" or cluster.spec.nodes_come_with_jobs:
        return None
    for _ in range(_TRIES):
        before = ports.turns.get(cluster_name)
        after = _given(ports, cluster, before, asking)
        if after == before:
            return before
        try:
            ports.turns.put(after)
        except ConflictError:
            continue
        for run_id in after.given.keys() - before.given.keys():
            if asking is None or run_id != asking.id:
                wake_run(ports, run_id)
        return after
    raise ConflictError(f"the turns on cluster {cluster_name} are changed by many at once")


def _given(ports: Ports, cluster: Cluster, before: Turns, asking: Run | None) -> Turns:
    runs = {run.id: run for run in ports.runs.on_cluster(cluster.name)}
    if asking is not None:
        runs[asking.id] = asking
    for run_id in before.given.keys() - runs.keys():  # over, or not listed yet
        try:
            runs[run_id] = ports.runs.get(run_id)
        except (RunNotFound, RecordUnreadable):
            continue
    members = Book(ports.clusters.facts(cluster.name), made_at=cluster.created_at).members()
    return turns.given(
        before,
        [_claim(cluster, run) for run in runs.values() if turns.counts(run)],
        cluster.shared_by,
        lambda pool: nodes_of(cluster, members, pool),
        ports.clock.now(),
    )


def _claim(cluster: Cluster, run: Run) -> turns.Claim:
    return turns.claim_of(run, partition_of(cluster, run.spec.job.partition))

"""Events of AWS about clusters and jobs."""

from __future__ import annotations

import re
from dataclasses import replace

from trainyard.app.facts.job_events import record_job_event
from trainyard.app.facts.recorded import Recorded, malformed
from trainyard.app.facts.waking import wake_cluster, wake_run
from trainyard.domain.book import Book
from trainyard.domain.capacity_refusals import first_word
from trainyard.domain.cluster_facts import ClusterEvent, ClusterState
from trainyard.domain.errors import ClusterNotFound, TrainyardError
from trainyard.domain.facts import type_of
from trainyard.domain.kinds import sentence
from trainyard.domain.records import Cluster
from trainyard.outside.seen_events import BackendEvent
from trainyard.ports import Ports
from trainyard_contracts.events import Fact, mistakes

#: What a cluster can be called; with anything else nothing need be asked of the table.
_NAME = re.compile(r"[A-Za-z0-9-]{1,63}")


def record_backend_event(
    ports: Ports, backend: str, kind: str, read: BackendEvent | str
) -> Recorded:
    if isinstance(read, str):
        return Recorded("dropped", read, kind)
    if found := mistakes(read.fact):
        return Recorded("dropped", malformed(found), kind)
    if read.run_id:
        return record_job_event(ports, kind, read)
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
    return _recorded(ports, cluster, _with_reason(ports, cluster, read))


def _recorded(ports: Ports, cluster: Cluster, read: BackendEvent) -> Recorded:
    """Record it with the cluster and all its runs, and wake those who wait for it."""
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

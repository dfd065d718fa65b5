"""Facts of clusters, recorded with all runs on them."""

from __future__ import annotations

from trainyard.app.facts.recorded import Recorded
from trainyard.app.facts.waking import wake_cluster, wake_run
from trainyard.domain.facts import type_of
from trainyard.domain.kinds import kind_of, sentence
from trainyard.domain.records import Cluster, Run
from trainyard.ports import Ports
from trainyard_contracts.events import AgentEvent, ClusterReady, MeetingEvent


def record_cluster_fact(ports: Ports, cluster: Cluster, event: AgentEvent) -> Recorded:
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

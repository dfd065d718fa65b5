"""Tell every run on a cluster what happened to it."""

from __future__ import annotations

from trainyard.app.facts.waking import wake_run
from trainyard.domain.kinds import sentence
from trainyard.domain.records import Cluster
from trainyard.ports import Ports
from trainyard_contracts.events import Fact


def tell_runs(ports: Ports, cluster: Cluster, fact: Fact) -> list[str]:
    """Record the cluster's fact on its active runs and wake those that wait for it.

    Returns their ids.
    """
    runs = ports.runs.on_cluster(cluster.name)
    for run in runs:
        ports.runs.record(run.id, fact, sentence(fact))
        wake_run(ports, run.id, type(fact))
    return [run.id for run in runs]

"""Whether a cluster holds the only copy of a run's checkpoints is a fact of the cluster; teardown asks for it."""

from __future__ import annotations

from trainyard.app.situation import cluster_of
from trainyard.domain.records import Fact, Run
from trainyard.ports import Ports


def remember_copies(ports: Ports, run: Run, fact_type: str) -> None:
    """Record facts.SAVED_RUN or facts.UNSAVED_RUN on the run's cluster, once a life."""
    cluster = cluster_of(ports, run)
    if cluster is None:
        return
    data = {"runId": run.id, "generation": cluster.generation}
    fact = Fact(id=f"{fact_type}-{run.id}-{run.life}", type=fact_type, at=ports.clock.now(), data=data)
    ports.clusters.record(cluster.name, fact)

"""Whether a cluster holds the only copy of a run's checkpoints is a fact of the cluster.

Teardown asks for it.
"""

from __future__ import annotations

from trainyard.app.facts.situation import cluster_of
from trainyard.domain.job_facts import SavedRun, UnsavedRun
from trainyard.domain.records import Run
from trainyard.ports import Ports


def record_copies(ports: Ports, run: Run, kind: type[SavedRun | UnsavedRun]) -> None:
    """Record the fact on the run's cluster, once a life."""
    cluster = cluster_of(ports, run)
    if cluster is None:
        return
    fact_id = f"{kind.__name__}-{run.id}-{run.life}"
    ports.clusters.record(
        cluster.name,
        kind(id=fact_id, at=ports.clock.now(), run_id=run.id, generation=cluster.generation),
    )

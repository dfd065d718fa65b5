"""Load what a decision needs and decide, in one place, so that a step and its wait see the same."""

from __future__ import annotations

from trainyard.app.show_run import latest_sample
from trainyard.domain.decisions import Decision
from trainyard.domain.errors import ClusterNotFound
from trainyard.domain.records import Cluster, Run
from trainyard.domain.recovery import decide
from trainyard.ports import Ports


def cluster_of(ports: Ports, run: Run) -> Cluster | None:
    """The run's cluster, or None if there is no record of it yet."""
    try:
        return ports.clusters.get(run.cluster_name)
    except ClusterNotFound:
        return None


def think(ports: Ports, run: Run) -> Decision:
    """Decide on the stored state of now; nothing is saved."""
    cluster = cluster_of(ports, run)
    facts = ports.runs.facts(run.id)
    if cluster is not None:
        facts = facts + ports.clusters.facts(cluster.name)
    sample = latest_sample(ports, run) if run.attempt is not None else None
    current = sample is not None and run.attempt is not None and sample.attempt == run.attempt.number
    progress = sample.step if sample is not None and current else None
    return decide(run, facts, cluster, ports.clock.now(), progress=progress)

"""A run's series: one per node of its cluster and one of its training, from the stored heartbeats."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trainyard.ports import Ports
from trainyard_contracts.events import NodeSample, RunSample

#: Heartbeats read at most: a day of one a minute.
LIMIT = 1440


@dataclass(frozen=True)
class Metrics:
    """`run` pairs each sample with the time of the heartbeat that carried it."""

    nodes: dict[str, list[NodeSample]] = field(default_factory=dict)
    run: list[tuple[datetime, RunSample]] = field(default_factory=list)


def read_metrics(ports: Ports, run_id: str, *, since_seconds: float = 3600) -> Metrics:
    """Raises RunNotFound."""
    run = ports.runs.get(run_id)
    metrics = Metrics()
    since = max(ports.clock.now() - timedelta(seconds=since_seconds), run.created_at)
    for beat in ports.clusters.heartbeats(run.cluster_name, since=since, limit=LIMIT):
        for sample in beat.nodes:
            metrics.nodes.setdefault(sample.node, []).append(sample)
        metrics.run.extend((beat.at, sample) for sample in beat.runs if sample.run_id == run_id)
    return metrics

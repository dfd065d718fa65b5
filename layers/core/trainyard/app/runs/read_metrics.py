"""A run's series, thinned to what an answer holds.

Those of its cluster's nodes and of its training are made of the stored heartbeats, the curve of
what it reported under one name of what its agent keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from trainyard.app.runs.read_curves import Curve, read_curve
from trainyard.ports import Ports
from trainyard_contracts.curves import LOSS
from trainyard_contracts.events import ClusterHeartbeat, NodeSample, RunSample

#: Heartbeats read at most: a day of one a minute, of a small cluster.
LIMIT = 1440
MOST_BYTES_READ = 48 * 1024 * 1024
#: Moments looked at where all heartbeats are too much to read.
MOST_LOOKS = 60
MOST_POINTS, FEWEST_POINTS = 240, 12
#: A Lambda function answers with 6 MB at most, in which an answer's text is escaped once more.
MOST_BYTES = 3 * 1024 * 1024

T = TypeVar("T")


@dataclass(frozen=True)
class Metrics:
    """`run` pairs each sample with the time of the heartbeat that carried it.

    `thinned`: points or nodes are left out, so that the answer stays small. `node_count`: nodes
    that have samples, shown or not.
    """

    nodes: dict[str, list[NodeSample]] = field(default_factory=dict)
    run: list[tuple[datetime, RunSample]] = field(default_factory=list)
    thinned: bool = False
    node_count: int = 0
    curve: Curve = field(default_factory=Curve)


def read_metrics(
    ports: Ports, run_id: str, *, since_seconds: float = 3600, name: str = LOSS
) -> Metrics:
    """Heartbeats of the time before now, or before the run's end, and all that it reported as
    `name`. Raises RunNotFound.
    """
    run = ports.runs.get(run_id)
    # A heartbeat's clock may be ahead of ours: of a run that goes on, all that there are count.
    until = run.finished_at if run.terminal else None
    now = until or ports.clock.now()
    since = max(now - timedelta(seconds=since_seconds), run.created_at)
    beats, left_out = _beats(ports, run.cluster_name, since, now, until)
    series: dict[str, list[NodeSample]] = {}
    for beat in beats:
        for sample in beat.nodes:
            series.setdefault(sample.node, []).append(sample)
    trained = [
        (beat.at, sample)
        for beat in beats
        if beat.part == 1
        for sample in beat.runs
        if sample.run_id == run_id
    ]
    nodes = _fitting(series, run.attempt.nodes if run.attempt else [])
    thinned = left_out or sum(map(len, nodes.values())) < sum(map(len, series.values()))
    points = _spread(trained, MOST_POINTS)
    return Metrics(
        nodes,
        points,
        thinned or len(points) < len(trained),
        len(series),
        read_curve(ports, run, name, trained),
    )


def _beats(
    ports: Ports, cluster: str, since: datetime, now: datetime, until: datetime | None
) -> tuple[list[ClusterHeartbeat], bool]:
    """Heartbeats, oldest first, and whether there may be more of them."""
    newest = ports.clusters.heartbeats(cluster, since=since, until=until, limit=1)
    if not newest:
        return [], False
    parts, size = newest[0].parts, len(newest[0].model_dump_json(by_alias=True))
    most = min(LIMIT, MOST_BYTES_READ // size)
    expected = parts * (now - since).total_seconds() / ports.config.heartbeat_seconds
    if size * LIMIT <= MOST_BYTES_READ or expected <= most:
        beats = ports.clusters.heartbeats(cluster, since=since, until=until, limit=most)
        return beats, len(beats) == most
    looks = max(2, min(MOST_LOOKS, most // parts))
    step = (now - since) / looks
    ends = [now - step * number for number in reversed(range(looks))]
    return [
        beat
        for end in ends
        for beat in ports.clusters.heartbeats(cluster, since=end - step, until=end, limit=parts)
    ], True


def _fitting(
    series: dict[str, list[NodeSample]], first: Sequence[str]
) -> dict[str, list[NodeSample]]:
    """The series with as many points as there is room for.

    If there is room for few series only, those of the run's own nodes come first.
    """
    if not series:
        return {}
    largest = max(
        (sample for samples in series.values() for sample in samples),
        key=lambda sample: len(sample.gpus),
    )
    room = MOST_BYTES // (
        len(largest.model_dump_json(by_alias=True)) + 64
    )  # the numbers of other points may be longer
    points = min(MOST_POINTS, max(FEWEST_POINTS, room // len(series)))
    mine = set(first)
    chosen = sorted(series, key=lambda node: (node not in mine, node))[: max(1, room // points)]
    return {node: _spread(series[node], points) for node in sorted(chosen)}


def _spread(items: list[T], most: int) -> list[T]:
    """At most so many of them at even distances, the newest among them."""
    if len(items) <= most:
        return items
    return [
        items[len(items) - 1 - (number * len(items)) // most] for number in reversed(range(most))
    ]

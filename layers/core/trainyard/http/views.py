"""What the API answers: records as they go over the wire, in camelCase and without what only the table needs."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from trainyard.app.dry_run import DryRun
from trainyard.app.read_metrics import Metrics
from trainyard.domain.records import Checkpoint, Cluster, ClusterNode, Export, Problem, Record, Run, RunStatus, TimelineEntry
from trainyard_contracts.events import NodeSample, RunSample

#: A Lambda function answers with 6 MB at most, in which an answer's text is escaped once more.
_MOST_SAMPLE_BYTES = 2 * 1024 * 1024


class RunView(Run):
    """A run, with the newest sample of its training."""

    version: int = Field(default=0, exclude=True)
    last_trouble: str = Field(default="", exclude=True)
    former_nodes: list[str] = Field(default_factory=list, exclude=True)
    latest: RunSample | None = None

    @classmethod
    def of(cls, run: Run, latest: RunSample | None = None) -> RunView:
        """The view of a stored run; nothing is validated twice."""
        return cls.model_construct(**dict(run), latest=latest)


class RunSummary(Record):
    """A run in a list: where it is and why, without its spec, its files and its attempts."""

    id: str
    name: str
    status: RunStatus
    outcome: Literal["succeeded", "failed", "cancelled"] | None
    reason: str
    problem: Problem | None
    generation: int
    life: int
    created_at: datetime
    updated_at: datetime
    opened_at: datetime | None
    finished_at: datetime | None
    cluster_name: str
    owns_cluster: bool
    cluster_deleted: bool
    attempt_count: int = Field(description="attempts so far, of all lives")
    export: Export | None

    @classmethod
    def of(cls, run: Run) -> RunSummary:
        kept = {name: getattr(run, name) for name in cls.model_fields if name in Run.model_fields}
        return cls.model_construct(**kept, attempt_count=run.attempt.number if run.attempt else 0)


class RunPage(Record):
    runs: list[RunSummary]
    next_token: str | None = None


class EventPage(Record):
    events: list[TimelineEntry]
    next_token: str | None = None


class CheckpointPage(Record):
    checkpoints: list[Checkpoint]
    next_token: str | None = None


class LogView(Record):
    """The tail of a log. `source` says where it was read: the node itself or the copy in S3."""

    kind: Literal["job", "lifecycle"]
    attempt: int | None = None
    source: str
    text: str


class TimedRunSample(RunSample):
    """Where the training stood at a moment."""

    at: datetime


class MetricsView(Record):
    """Series from the heartbeats, oldest first; `nodes` by Slurm node name."""

    nodes: dict[str, list[NodeSample]]
    run: list[TimedRunSample]
    thinned: bool = Field(
        default=False, description="points or nodes are left out, so that the answer stays small; a shorter time shows more points"
    )
    node_count: int = Field(default=0, description="nodes that have samples, shown or not")

    @classmethod
    def of(cls, metrics: Metrics) -> MetricsView:
        samples = [TimedRunSample.model_construct(**dict(sample), at=at) for at, sample in metrics.run]
        return cls.model_construct(nodes=metrics.nodes, run=samples, thinned=metrics.thinned, node_count=metrics.node_count)


class PlanView(Record):
    """What would be sent, with nothing sent: the backend's exact request, the files with their sizes, the price."""

    operation: str | None = None
    request: dict[str, Any] = Field(default_factory=dict)
    files: dict[str, int] = Field(default_factory=dict)
    batch_script: str | None = None
    hourly_usd: float | None = None
    warnings: list[str] = Field(default_factory=list)

    @classmethod
    def of(cls, plan: DryRun) -> PlanView:
        return cls(
            request=plan.request,
            operation=plan.operation,
            files=plan.files,
            batch_script=plan.batch_script,
            hourly_usd=plan.hourly_usd,
            warnings=plan.warnings,
        )


class ClusterView(Cluster):
    """A cluster."""

    version: int = Field(default=0, exclude=True)
    signs_events: bool = Field(default=False, exclude=True)
    idempotency_key: str | None = Field(default=None, exclude=True)

    @classmethod
    def of(cls, cluster: Cluster) -> ClusterView:
        return cls.model_construct(**dict(cluster))


class ClusterPage(Record):
    clusters: list[ClusterView]
    next_token: str | None = None


class NodeList(Record):
    nodes: list[ClusterNode]
    samples_left_out: bool = Field(default=False, description="the nodes are too many to show each one's sample too")

    @classmethod
    def of(cls, nodes: list[ClusterNode]) -> NodeList:
        """With the nodes' samples, as long as a Lambda function's answer holds them."""
        if sum(len(json.dumps(node.sample)) for node in nodes if node.sample) <= _MOST_SAMPLE_BYTES:
            return cls.model_construct(nodes=nodes)
        bare = [node.changed(sample=None) for node in nodes]
        return cls.model_construct(nodes=bare, samples_left_out=True)


class BatchView(Record):
    """What the backend accepted; `failed` gives its reason by instance id."""

    successful: list[str]
    failed: dict[str, str]

"""What the API answers: records as they go over the wire, in camelCase and without what only the table needs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from trainyard.app.dry_run import DryRun
from trainyard.app.read_metrics import Metrics
from trainyard.domain.records import Checkpoint, Cluster, ClusterNode, Record, Run, TimelineEntry
from trainyard_contracts.events import NodeSample, RunSample


class RunView(Run):
    """A run, with the newest sample of its training."""

    version: int = Field(default=0, exclude=True)
    last_trouble: str = Field(default="", exclude=True)
    latest: RunSample | None = None

    @classmethod
    def of(cls, run: Run, latest: RunSample | None = None) -> RunView:
        """The view of a stored run; nothing is validated twice."""
        return cls.model_construct(**dict(run), latest=latest)


class RunPage(Record):
    runs: list[RunView]
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

    @classmethod
    def of(cls, metrics: Metrics) -> MetricsView:
        samples = [TimedRunSample.model_construct(**dict(sample), at=at) for at, sample in metrics.run]
        return cls.model_construct(nodes=metrics.nodes, run=samples)


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
    idempotency_key: str | None = Field(default=None, exclude=True)

    @classmethod
    def of(cls, cluster: Cluster) -> ClusterView:
        return cls.model_construct(**dict(cluster))


class ClusterPage(Record):
    clusters: list[ClusterView]
    next_token: str | None = None


class NodeList(Record):
    nodes: list[ClusterNode]


class BatchView(Record):
    """What the backend accepted; `failed` gives its reason by instance id."""

    successful: list[str]
    failed: dict[str, str]

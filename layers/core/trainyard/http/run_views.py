"""A run, as the API shows it."""

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from trainyard.domain import records
from trainyard.domain.records import RunStatus
from trainyard.http.attempt_views import Attempt, Incident
from trainyard.http.export_views import Export, Sync
from trainyard.http.origin_views import ApprovalAsked, ArrayMember, Code
from trainyard.http.views import Problem, View
from trainyard_contracts.events import RunSample
from trainyard_contracts.people import Person
from trainyard_contracts.specs import RunSpec

Outcome = Literal["succeeded", "failed", "cancelled"]


class RunView(View):
    """A run, with the newest sample of its training."""

    id: str
    name: str
    labels: dict[str, str] = Field(description="as they are now; spec has those of the submission")
    spec: RunSpec
    status: RunStatus
    generation: int = Field(description="of the state machine's execution; a restart adds one")
    life: int = Field(description="a resume of an ended run begins a new life with new budgets")
    created_at: datetime
    created_by: Person | None = Field(
        description="whose it is; null: a version submitted it that did not keep that"
    )
    shared_with: list[str] = Field(description="patterns of ARNs of others who may change it")
    cancelled_by: Person | None = Field(description="of this life; null: nobody, or not known")
    updated_at: datetime
    opened_at: datetime | None = Field(description="when this life began")
    finished_at: datetime | None
    priority: int = Field(description="as it is now; spec has that of the submission")
    turn_waits_since: datetime | None = Field(
        description="when it began to wait for its turn on a shared cluster; null: it does not"
    )
    array: ArrayMember | None = Field(description="of a run that an array made")
    schedule: str = Field(description="the name of the schedule that submitted it, or ''")
    approval: ApprovalAsked | None = Field(description="of this life; null: it needs none")
    approval_met_at: datetime | None = Field(
        description="when the run went on with its approval; null: it did not"
    )
    after_met_at: datetime | None = Field(
        description="when all runs of spec.after had ended, so that it could begin"
    )
    warnings: list[str] = Field(
        description="what could surprise who submitted it, said at submission"
    )
    cluster_name: str
    owns_cluster: bool
    cluster_generation: int | None = Field(
        description="generation of its own cluster that this life uses"
    )
    cluster_deleted: bool
    directory_deleted_at: datetime | None = Field(
        description="when its directory in S3 was deleted, as its verified export has everything"
    )
    filesystem: str = Field(
        description=(
            "what the run's last attempt wrote lies on this filesystem: its DNS name and mount name"
        )
    )
    objects_prefix: str = Field(
        description="where its objects lie in the data bucket; runs/<id> of older runs"
    )
    code: Code | None = Field(
        description="of a run with job.workdir; of one with job.git once it is fetched"
    )
    image_digest: str = Field(
        description="of job.image, once the first attempt found it: all have the same"
    )
    attempts: list[Attempt]
    incidents: list[Incident]
    excluded_nodes: list[str]
    outcome: Outcome | None = Field(
        description="set when training is over; export and teardown may still be under way"
    )
    reason: str = Field(description="why the run is where it is, in words a person understands")
    problem: Problem | None
    export: Export | None
    sync: Sync | None = Field(description="the last copy while it trained; null: none, or unknown")
    teardown_refused: str = Field(
        description="why its own cluster was kept although the policy says to delete it"
    )
    waiting_since: datetime | None = Field(description="when the run began to wait for a node")
    stopping_since: datetime | None = Field(description="when training was told to stop")
    cost_usd: float | None = Field(
        description="what all its lives cost, set at its end; null before, and where a price was "
        "not known. So far: /v1/runs/{runId}/cost"
    )
    latest: RunSample | None

    @classmethod
    def of(cls, record: BaseModel, *, uri: str = "", in_s3: str = "", **other: Any) -> Self:
        """`uri`: where it is exported to; `in_s3`: what was copied there, in words."""
        assert isinstance(record, records.Run)
        parts = {
            "attempts": [Attempt.of(attempt) for attempt in record.attempts],
            "incidents": [Incident.of(incident) for incident in record.incidents],
            "code": Code.of(record.code) if record.code else None,
            "array": ArrayMember.of(record.array) if record.array else None,
            "approval": ApprovalAsked.of(record.approval) if record.approval else None,
            "problem": Problem.of_run(record, in_s3),
            "export": Export.of(record.export, uri=uri) if record.export else None,
            "cost_usd": record.cost.usd if record.terminal and record.cost else None,
        }
        return super().of(record, **{"latest": None, "sync": None, **parts, **other})

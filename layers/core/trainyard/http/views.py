"""What the API answers, field by field, in camelCase; the table's other fields stay inside."""

import json
from datetime import date, datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from trainyard.app.clusters.adopt_cluster import AdoptionPlan
from trainyard.app.runs import read_curves
from trainyard.app.runs.dry_run import DryRun, PlannedWay
from trainyard.app.runs.list_outputs import Outputs
from trainyard.app.runs.read_metrics import Metrics
from trainyard.domain import records
from trainyard.domain.advice import advised
from trainyard.domain.list_prices import ListPrice
from trainyard.domain.records import ClusterStatus, RunStatus
from trainyard.domain.states import NodeState
from trainyard.domain.variables import Variable
from trainyard_contracts.base import Unchanging
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.curves import LOSS
from trainyard_contracts.events import NodeSample, RunSample
from trainyard_contracts.people import Person
from trainyard_contracts.sharing import SharingSpec
from trainyard_contracts.specs import RunSpec

#: A Lambda function answers with 6 MB at most, in which an answer's text is escaped once more.
_MOST_SAMPLE_BYTES = 2 * 1024 * 1024
Outcome = Literal["succeeded", "failed", "cancelled"]


class View(Unchanging):
    """Made of a record by the names of its fields; nothing is validated twice."""

    @classmethod
    def of(cls, record: BaseModel, **other: Any) -> Self:
        """`other` are fields that the record has in another form, or not at all."""
        kept = {name: getattr(record, name) for name in cls.model_fields if name not in other}
        return cls.made(**kept, **other)

    @classmethod
    def made(cls, **fields: Any) -> Self:
        """A view of these fields, which are not validated again."""
        # pydantic's plugin of mypy does not know Self
        return cls.model_construct(**fields)  # type: ignore[return-value]


class Problem(View):
    """Why something ended badly; `nextStep` tells what to do."""

    code: str
    title: str
    detail: str
    next_step: str

    @classmethod
    def of_run(cls, run: records.Run, in_s3: str = "") -> Self | None:
        found = advised(run, in_s3)
        return cls.of(found) if found is not None else None


class Attempt(View):
    """One submission of the run's job."""

    number: int
    life: int = Field(description="Run.life it belongs to; budgets count within a life")
    submitted_at: datetime | None
    job_id: str | None
    nodes: list[str]
    started_at: datetime | None
    first_step_at: datetime | None
    resumed_from: int | None = Field(
        description="step of the checkpoint that its program says it went on from"
    )
    began_with: str = Field(
        description="the newest whole checkpoint that was there when its job began: 'step 40', or "
        "'copy 3' of one whose step is not known; '': none is known"
    )
    ended_at: datetime | None
    outcome: Literal["succeeded", "failed", "cancelled", "lost"] | None
    reason: str
    exclude: list[str]
    down: list[str]


class Incident(View):
    """From the first bad fact to the first training step after it.

    Where a program tells no step, it lasts until the program started again and lived.
    """

    cause: str
    attempt: int
    life: int
    started_at: datetime
    actions: list[str]
    reason: str
    node: str | None
    resumed_at: datetime | None
    resumed_by: Literal["step", "start"] = Field(
        description="start: its program tells no step, so resumedAt is when the program started "
        "again, and no time of a recovery"
    )


class Export(View):
    """One export of the run; only `verified` permits deleting the cluster."""

    id: str
    state: Literal["requested", "running", "failed", "verified"]
    final: bool = Field(
        description="made after training ended, so it holds everything that is whole"
    )
    requested_at: datetime
    tries: int
    reason: str
    objects: int
    bytes: int
    manifest_key: str
    left_behind: str = Field(
        description="what of the program's only the cluster holds, though every object is verified"
    )
    found_nothing: bool = Field(
        description="neither checkpoint nor model nor file of the program's: only logs"
    )
    uri: str = Field(description="s3://bucket/prefix/ where its objects lie")


class Checkpoint(View):
    """A checkpoint that was committed, and what is known of it now."""

    step: int
    attempt: int
    path: str
    bytes: int
    files: int
    committed_at: datetime
    status: Literal["whole", "rejected", "pruned"] = Field(
        description=(
            "whole: every hash verified; rejected: it does not verify; pruned: "
            "removed, newer ones are kept, or lost with its filesystem"
        )
    )
    reason: str
    counted: bool = Field(description="'step' is no step of the training: it counts the copies")


class Output(View):
    """One object of the verified export; `key` is relative to the page's `uri`."""

    key: str
    bytes: int
    sha256: str
    url: str | None = Field(
        default=None, description="with urls=true: anybody can read the object by it for a while"
    )


class OutputPage(View):
    uri: str = Field(
        description="s3://bucket/prefix/ that every key is below; of a sync every object, by its "
        "SHA-256"
    )
    outputs: list[Output]
    source: Literal["export", "sync"] = Field(
        default="export",
        description="export: the verified one; sync: what was copied while the run trains, or "
        "until its cluster was lost, which has hashes, too, and may lack what came after it",
    )
    synced_at: datetime | None = None
    urls_expire_at: datetime | None = None
    next_token: str | None = None

    @classmethod
    def of_outputs(cls, page: Outputs) -> Self:
        found = [
            Output.made(
                key=item.object.key,
                bytes=item.object.bytes,
                sha256=item.object.sha256,
                url=item.url,
            )
            for item in page.items
        ]
        return cls.made(
            uri=page.uri,
            outputs=found,
            source=page.source,
            synced_at=page.at,
            urls_expire_at=page.expires_at,
            next_token=page.next_token,
        )


class TimelineEntry(View):
    """One line of a run's timeline: a fact, a decision with its reason, or a change of status."""

    id: str
    at: datetime
    kind: Literal["fact", "decision", "status"]
    type: str
    message: str
    attempt: int | None
    data: dict[str, Any]


class Code(View):
    """The directory that becomes the run's working directory."""

    tree: str = Field(
        description="job.workdir: the id of the upload; of job.git: made of its commit"
    )
    files: int
    bytes: int = Field(description="of the files")
    commit: str = Field(description="that every attempt runs; of job.git")
    url: str = Field(description="of job.git")
    ref: str = Field(description="of job.git: what was asked for")


class Sync(View):
    """What the run made is in S3 as it was then (export.everySeconds)."""

    at: datetime
    attempt: int
    last_step: int | None = Field(description="of the newest checkpoint in it")
    objects: int
    bytes: int
    left_out: int = Field(description="files of the program's that are not in it")


class ArrayMember(View):
    """Which member of which array a run is."""

    id: str = Field(description="of the array")
    index: int = Field(description="from 0")


class ApprovalAsked(View):
    """The approval that this life of a run waits for, or went on with."""

    id: str
    because: str = Field(description="why it is needed")
    usd: float | None = Field(description="what it may cost at most; null: the price is not known")
    needed: int = Field(description="so many people have to approve it")
    expires_at: datetime = Field(description="nobody can approve it after that")


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


class RunSummary(View):
    """A run in a list: where it is and why, without its spec, its files and its attempts."""

    id: str
    name: str
    labels: dict[str, str]
    status: RunStatus
    outcome: Outcome | None
    reason: str
    problem: Problem | None
    created_at: datetime
    created_by: Person | None
    updated_at: datetime
    opened_at: datetime | None
    finished_at: datetime | None
    cluster_name: str
    owns_cluster: bool
    cluster_deleted: bool
    attempt_count: int = Field(description="attempts so far, of all lives")
    export: Export | None
    cost_usd: float | None = Field(
        description="what all its lives cost, set at its end; null before, or not known"
    )

    @classmethod
    def of(cls, record: BaseModel, *, uri: str = "", **other: Any) -> Self:
        """`uri`: where it is exported to."""
        assert isinstance(record, records.Run)
        return super().of(
            record,
            attempt_count=record.attempt.number if record.attempt else 0,
            problem=Problem.of_run(record),
            export=Export.of(record.export, uri=uri) if record.export else None,
            cost_usd=record.cost.usd if record.terminal and record.cost else None,
            **other,
        )


class RunPage(View):
    runs: list[RunSummary]
    next_token: str | None = None


class EventPage(View):
    events: list[TimelineEntry]
    next_token: str | None = None


class CheckpointPage(View):
    checkpoints: list[Checkpoint]
    next_token: str | None = None


class LogView(View):
    """The tail of a log. `source` says where it was read: the node itself or the copy in S3."""

    kind: Literal["job", "lifecycle"]
    attempt: int | None = None
    source: str
    text: str


class TimedRunSample(RunSample):
    """Where the training stood at a moment."""

    at: datetime


class CurvePoint(View):
    """One report of a number."""

    at: datetime
    attempt: int
    step: int
    value: float

    @classmethod
    def of_point(cls, point: read_curves.CurvePoint) -> Self:
        return cls.made(at=point.at, attempt=point.attempt, step=point.step, value=point.value)


class CurveName(View):
    """A name under which the run reported numbers, in all its attempts."""

    name: str = Field(description="the program's own word; loss is the training's loss")
    reports: int = Field(description="how many there were; of the loss of older agents, samples")
    not_finite: int = Field(description="reports of NaN or of infinity; they have no point")
    last: float | None = Field(description="the newest")
    lowest: float | None = Field(description="of all attempts")
    highest: float | None = Field(description="of all attempts")

    @classmethod
    def of_name(cls, one: read_curves.CurveName) -> Self:
        return cls.made(
            name=one.name,
            reports=one.reports,
            not_finite=one.not_finite,
            last=one.last,
            lowest=one.lowest,
            highest=one.highest,
        )


class MetricsView(View):
    """Series from the heartbeats, oldest first, `nodes` by Slurm node name; and one curve of all
    that the run reported, which is kept for ever.
    """

    nodes: dict[str, list[NodeSample]]
    run: list[TimedRunSample]
    thinned: bool = Field(
        default=False,
        description=(
            "points or nodes are left out, so that the answer stays small; "
            "a shorter time shows more points"
        ),
    )
    node_count: int = Field(default=0, description="nodes that have samples, shown or not")
    name: str = Field(default=LOSS, description="whose points are shown")
    points: list[CurvePoint] = Field(
        default_factory=list,
        description=(
            "of the whole run, by attempt and step, 2000 at most: the first, the newest, the "
            "lowest and the highest are always among them"
        ),
    )
    names: list[CurveName] = Field(
        default_factory=list, description="100 at most, the loss first, then by their first report"
    )
    names_left_out: int = Field(default=0, description="names that are not kept or not shown")

    @classmethod
    def of_series(cls, metrics: Metrics) -> Self:
        samples = [
            TimedRunSample.model_construct(**dict(sample), at=at) for at, sample in metrics.run
        ]
        curve = metrics.curve
        return cls.made(
            nodes=metrics.nodes,
            run=samples,
            thinned=metrics.thinned,
            node_count=metrics.node_count,
            name=curve.name,
            points=list(map(CurvePoint.of_point, curve.points)),
            names=list(map(CurveName.of_name, curve.names)),
            names_left_out=curve.names_left_out,
        )


class WayView(View):
    """A way in which the cluster would be tried."""

    way: str = Field(description="such as 'ml.p5.48xlarge, spot'")
    backend: str = Field(description="in which it is made")
    hourly_usd: float | None = Field(description="null where the price list does not say")
    expected_usd: float | None = Field(
        description="of limits.expectedSeconds; null where that or the price is not known"
    )
    most_usd: float | None = Field(
        description="of limits.maxDurationSeconds, or the budget if that is less"
    )
    operation: str
    request: dict[str, Any]
    files: dict[str, int] = Field(
        description="sizes in bytes of what would be uploaded for it, by the objects' names"
    )
    zones: list[str] = Field(description="of its subnets, as far as they are known")
    cannot: list[str] = Field(description="what other backends do, and this one does not")
    warnings: list[str]

    @classmethod
    def of_way(cls, way: PlannedWay, plan: DryRun) -> Self:
        return cls(
            way=way.way,
            backend=way.backend,
            hourly_usd=way.hourly_usd,
            expected_usd=_usd(way.hourly_usd, plan.expected_seconds),
            most_usd=_usd(way.hourly_usd, plan.longest_seconds, plan.budget_usd),
            operation=way.operation,
            request=way.request,
            files=way.files,
            zones=way.zones,
            cannot=way.cannot,
            warnings=way.warnings,
        )


def _usd(hourly: float | None, seconds: int | None, most: float | None = None) -> float | None:
    if hourly is None or seconds is None:
        return None
    usd = hourly * seconds / 3600
    return round(usd if most is None else min(usd, most), 2)


class PlannedVariable(View):
    """A variable that the run's program will find."""

    name: str
    value: str | None = Field(
        description="null where it is secret, or not known before the run is submitted"
    )
    source: Literal["job", "secret", "trainyard", "launcher"] = Field(
        description="who sets it: job.environment, job.secrets, Trainyard for every job, or the "
        "recipe's launcher for each process"
    )
    note: str = Field(description="what it will be, or what else to know; '' = nothing")

    @classmethod
    def of_variable(cls, one: Variable) -> Self:
        return cls(name=one.name, value=one.value, source=one.source, note=one.note)


class ListPriceView(View):
    """What it would cost on AWS, where the deployment's own price list does not say it."""

    hourly_usd: float | None = Field(description="of all nodes; null where it is not known")
    expected_usd: float | None = Field(
        description="of limits.expectedSeconds; null where that or the price is not known"
    )
    most_usd: float | None = Field(
        description="of limits.maxDurationSeconds, or the budget if that is less"
    )
    as_of: date | None = Field(description="the day of the oldest price in it")
    words: str = Field(description="what it is, or why it is not known")

    @classmethod
    def of_plan(cls, found: ListPrice, plan: DryRun) -> Self:
        return cls(
            hourly_usd=found.hourly_usd,
            expected_usd=_usd(found.hourly_usd, plan.expected_seconds),
            most_usd=_usd(found.hourly_usd, plan.longest_seconds, plan.budget_usd),
            as_of=found.on,
            words=found.words,
        )


class PlanView(View):
    """What would be sent, but is not: the backend's exact request, files with sizes, the price."""

    operation: str | None = None
    request: dict[str, Any] = Field(default_factory=dict)
    files: dict[str, int] = Field(default_factory=dict)
    batch_script: str | None = None
    hourly_usd: float | None = Field(
        default=None,
        description="of all nodes, or of the run's part of a cluster that is there; null where the "
        "price is not known",
    )
    warnings: list[str] = Field(default_factory=list)
    ways: list[WayView] = Field(
        default_factory=list,
        description="of a spec with capacity, in order; request and price are of the first",
    )
    backend: str | None = Field(default=None, description="null where nothing would be created")
    zones: list[str] = Field(
        default_factory=list, description="of its subnets, as far as they are known"
    )
    cannot: list[str] = Field(
        default_factory=list, description="what other backends do, and this one does not"
    )
    expected_usd: float | None = Field(
        default=None,
        description="of limits.expectedSeconds; null where that or the price is not known",
    )
    most_usd: float | None = Field(
        default=None, description="of limits.maxDurationSeconds, or the budget if that is less"
    )
    environment: list[PlannedVariable] = Field(
        default_factory=list,
        description="what a run's program will find, each name once; secrets by their names only",
    )

    list_price: ListPriceView | None = Field(
        default=None,
        description="what the first way would cost on AWS by a list that is shipped, where nodes "
        "are free (the local cloud) or their price is not known; null where hourlyUsd says it",
    )

    @classmethod
    def of_plan(cls, plan: DryRun) -> Self:
        listed = plan.list_price
        return cls(
            request=plan.request,
            operation=plan.operation,
            files=plan.files,
            batch_script=plan.batch_script,
            hourly_usd=plan.hourly_usd,
            warnings=plan.warnings,
            ways=[WayView.of_way(way, plan) for way in plan.ways],
            backend=plan.backend,
            zones=plan.zones,
            cannot=plan.cannot,
            expected_usd=_usd(plan.hourly_usd, plan.expected_seconds),
            most_usd=_usd(plan.hourly_usd, plan.longest_seconds, plan.budget_usd),
            environment=[PlannedVariable.of_variable(one) for one in plan.variables],
            list_price=None if listed is None else ListPriceView.of_plan(listed, plan),
        )


class CapacityTry(View):
    """One way in which a cluster was tried."""

    number: int = Field(description="from 1")
    way: str = Field(description="such as 'ml.p5.48xlarge, spot'")
    hourly_usd: float | None = Field(
        description="of all its nodes; null where the price list does not say"
    )
    began_at: datetime
    ended_at: datetime | None
    reason: str = Field(description="why it ended, in AWS's words")


class ClusterChange(View):
    """What becomes, or became, of a cluster that is there."""

    state: records.ChangeState
    spec: ClusterSpec | None = Field(
        description="what is wanted; null: only the fleet is stopped or started"
    )
    fleet: Literal["running", "stopped"] = Field(description="what becomes of the fleet in the end")
    asked_at: datetime
    asked_by: Person | None
    ended_at: datetime | None
    forced: bool = Field(description="a person gave up people's jobs")
    stops_fleet: bool = Field(description="the change needs a fleet that is stopped meanwhile")
    outcome: records.ChangeState | None = Field(
        description="known while the fleet is started again"
    )
    reason: str = Field(description="what it waits for, or why it ended so, in AWS's words")


class AdoptedNode(View):
    """How far the agent is on one node of a cluster that others made."""

    group: str
    state: Literal["asked", "installing", "installed", "failed"]
    at: datetime = Field(description="when the node was last asked")
    tries: int = Field(description="how many of them failed, one after the other")
    reason: str = Field(description="why the newest one failed, or could not be undone")


class Adoption(View):
    """Of a cluster that others made. It is never deleted by Trainyard, only released."""

    replace_nodes: bool = Field(description="Trainyard may replace and reboot its nodes")
    nodes: dict[str, AdoptedNode] = Field(
        description="by instance id: nodes that may have anything of Trainyard's"
    )
    lacking: int | None = Field(
        description="nodes that run and still wait for the agent; null = not known yet"
    )
    left: list[str] = Field(description="what a release had to leave behind")

    @classmethod
    def of_record(cls, adoption: records.Adoption | None) -> Self | None:
        if adoption is None:
            return None
        return cls.of(
            adoption, nodes={key: AdoptedNode.of(one) for key, one in adoption.nodes.items()}
        )


#: A cluster that others made is never deleted: these are its words for the same.
_RELEASED: dict[str, str] = {"Deleting": "Releasing", "Deleted": "Released"}


class GroupSummary(View):
    """Nodes of one kind, in a list of clusters."""

    name: str
    role: Literal["controller", "worker", "login"]
    instance_type: str
    count: int = Field(description="for jobs, or people; of a queue the most there may be")
    spares: int


class ClusterSummary(View):
    """A cluster in a list: what it is and how it is, without its spec."""

    name: str
    labels: dict[str, str]
    status: ClusterStatus | Literal["Releasing", "Released"]
    backend: str
    groups: list[GroupSummary]
    created_at: datetime
    created_by: Person | None
    updated_at: datetime
    arn: str | None
    owner_run: str | None = Field(description="the run it was made for; null = stands on its own")
    ready_at: datetime | None
    last_used_at: datetime | None
    delete_requested_at: datetime | None
    problem: Problem | None
    changing: records.ChangeState | None = Field(
        description="how far an update, stop or start is that goes on now; null = there is none"
    )

    @classmethod
    def of(cls, record: BaseModel, **other: Any) -> Self:
        assert isinstance(record, records.Cluster)
        change = record.change
        released = _RELEASED.get(record.status) if record.adoption else None
        return super().of(
            record,
            status=released or record.status,
            groups=[GroupSummary.of(group) for group in record.spec.groups()],
            problem=Problem.of(record.problem) if record.problem else None,
            changing=change.state if change is not None and not change.over else None,
            **other,
        )


class ClusterView(View):
    """A cluster."""

    name: str
    labels: dict[str, str] = Field(description="as they are now; spec has those it was made with")
    sharing: SharingSpec = Field(description="as it is now; spec has that it was made with")
    spec: ClusterSpec
    status: ClusterStatus | Literal["Releasing", "Released"] = Field(
        description="Releasing and Released are of clusters that others made"
    )
    generation: int
    created_at: datetime
    created_by: Person | None = Field(
        description="whose it is; of a run's own cluster the run says it; null: not known"
    )
    shared_with: list[str] = Field(description="patterns of ARNs of others who may change it")
    deleted_by: Person | None = Field(description="who asked for its deletion last")
    updated_at: datetime
    arn: str | None
    owner_run: str | None = Field(description="the run it was made for; null = stands on its own")
    ready_at: datetime | None
    last_used_at: datetime | None
    last_heartbeat_at: datetime | None
    delete_requested_at: datetime | None
    delete_forced: bool = Field(
        description="a person gave up what only it holds, and people's jobs on it"
    )
    problem: Problem | None
    change: ClusterChange | None = Field(
        description="the newest update, stop or start; null = there was none"
    )
    tries: list[CapacityTry] = Field(
        description="of a spec with capacity; the newest is the one that spec shows"
    )
    warnings: list[str] = Field(description="what could surprise who asked for it")
    adoption: Adoption | None = Field(
        description="of a cluster that others made; null = Trainyard made it"
    )

    @classmethod
    def of(cls, record: BaseModel, **other: Any) -> Self:
        assert isinstance(record, records.Cluster)
        status = _RELEASED.get(record.status) if record.adoption else None
        return super().of(
            record,
            status=status or record.status,
            adoption=Adoption.of_record(record.adoption),
            problem=Problem.of(record.problem) if record.problem else None,
            sharing=record.shared_by,
            tries=[CapacityTry.of(one) for one in record.tries],
            change=ClusterChange.of(record.change) if record.change else None,
            **other,
        )


class AdoptionPlanView(View):
    """What an adoption would mean; nothing was done."""

    spec: ClusterSpec = Field(description="the cluster, as Trainyard would treat it")
    roles: list[str] = Field(description="of its nodes; each must allow what policy says")
    policy: dict[str, Any] = Field(
        description="a policy of IAM: what agent and jobs need besides what nodes need anyway"
    )

    @classmethod
    def of_plan(cls, plan: AdoptionPlan) -> Self:
        return cls.made(spec=plan.cluster.spec, roles=list(plan.roles), policy=dict(plan.policy))


class ClusterNode(View):
    """A node: backend state, Slurm state and the newest sample joined."""

    instance_id: str
    group: str
    role: Literal["controller", "worker", "login"]
    instance_type: str
    status: str = Field(description=f"backend's state: {', '.join(NodeState)}")
    message: str
    name: str | None = Field(description="Slurm node name ip-a-b-c-d")
    address: str | None
    launched_at: datetime | None
    agent: str
    scheduler: str
    sample: dict[str, Any] | None


class ClusterPage(View):
    clusters: list[ClusterSummary]
    next_token: str | None = None


class NodeList(View):
    nodes: list[ClusterNode]
    next_token: str | None
    samples_left_out: bool = Field(
        default=False, description="the nodes are too many to show each one's sample too"
    )

    @classmethod
    def of_nodes(cls, nodes: list[records.ClusterNode], next_token: str | None = None) -> Self:
        """With the nodes' samples, as long as a Lambda function's answer holds them."""
        if sum(len(json.dumps(node.sample)) for node in nodes if node.sample) <= _MOST_SAMPLE_BYTES:
            shown = [ClusterNode.of(node) for node in nodes]
            return cls.made(nodes=shown, next_token=next_token)
        return cls.made(
            nodes=[ClusterNode.of(node, sample=None) for node in nodes],
            next_token=next_token,
            samples_left_out=True,
        )


class BatchView(View):
    """What the backend accepted; `failed` gives its reason by instance id."""

    successful: list[str]
    failed: dict[str, str]

"""What the API answers, as classes; scripts/sdk_answers.py makes it of the document."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from trainyard_contracts.events import NodeSample, RunSample

from .answer import Answer, Open

__all__ = [
    "AdoptedNode",
    "Adoption",
    "AdoptionPlanView",
    "ApprovalAsked",
    "ApprovalPage",
    "ApprovalView",
    "ArrayMember",
    "ArrayMemberPage",
    "ArrayMemberView",
    "ArrayPage",
    "ArrayPlanView",
    "ArraySpec",
    "ArraySummary",
    "ArrayView",
    "Attempt",
    "AuditEntryView",
    "AuditPage",
    "BatchView",
    "BudgetSpec",
    "BudgetView",
    "CapacityTry",
    "ChainedRun",
    "Checkpoint",
    "CheckpointPage",
    "CheckpointSpec",
    "ClusterChange",
    "ClusterCostView",
    "ClusterNode",
    "ClusterPage",
    "ClusterRef",
    "ClusterShare",
    "ClusterSummary",
    "ClusterView",
    "Code",
    "CostTotal",
    "CostTotals",
    "CurveName",
    "CurvePoint",
    "DeliveryView",
    "EventPage",
    "Export",
    "ExportSpec",
    "FilesystemExportView",
    "FilesystemPage",
    "FilesystemPlanView",
    "FilesystemRequestView",
    "FilesystemSummary",
    "FilesystemView",
    "FiringView",
    "GitSpec",
    "GroupSummary",
    "Incident",
    "InputSpec",
    "JobPythonEnvironment",
    "JobSpec",
    "LedgerLine",
    "LimitSpec",
    "ListPriceView",
    "LogView",
    "MetricsView",
    "MissingObject",
    "NodeList",
    "NodeSample",
    "Output",
    "OutputPage",
    "Person",
    "PlanView",
    "PlannedRun",
    "PlannedTime",
    "PlannedVariable",
    "PriceSpan",
    "PriceView",
    "Problem",
    "ProgressSource",
    "RecoverySpec",
    "RefusalView",
    "RunCostView",
    "RunPage",
    "RunSample",
    "RunSummary",
    "RunView",
    "SchedulePage",
    "SchedulePlanView",
    "ScheduleSpec",
    "ScheduleSummary",
    "ScheduleView",
    "SharedBudgetPage",
    "SharedBudgetView",
    "SharingLimit",
    "SharingSpec",
    "StartSpec",
    "Sync",
    "TimedRunSample",
    "TimelineEntry",
    "TryView",
    "Upload",
    "VoteView",
    "WatchSpec",
    "WayView",
    "WebhookPage",
    "WebhookSummary",
    "WebhookView",
    "WebhookWithSecret",
    "WhoamiView",
]


class Person(Answer):
    """A principal of AWS. Two requests are of one person if `id` is the same."""

    kind: Open[Literal["user", "session", "role", "federated-user", "cognito", "root"]]
    account: str = ""
    arn: str = ""
    id: str = ""
    name: str = ""


class VoteView(Answer):
    """One person's word."""

    at: datetime
    by: Person
    reason: str = ""


class ApprovalView(Answer):
    """Something that waits for people, or that they decided."""

    action: Open[Literal["run.submit", "run.resume"]]
    created_at: datetime
    expires_at: datetime
    needed: int
    state: Open[Literal["pending", "approved", "denied", "expired", "used", "withdrawn"]]
    approvers: list[VoteView] = Field(default_factory=list)
    because: str = ""
    decided_at: datetime | None = None
    denied: VoteView | None = None
    id: str = ""
    requester: Person | None = None
    run_id: str = ""
    run_name: str = ""
    subject: str = ""
    usd: float | None = None


class ApprovalPage(Answer):
    """One page of approvals, newest first."""

    approvals: list[ApprovalView] = Field(default_factory=list)
    next_token: str | None = None


class ArraySummary(Answer):
    """An array in a list: how far its members are, without its spec."""

    active: int
    created_at: datetime
    max_parallel: int
    not_begun: int
    status: Open[Literal["Running", "Cancelling", "Succeeded", "Failed", "Cancelled"]]
    succeeded: int
    total: int
    updated_at: datetime
    cancelled: list[int] = Field(default_factory=list)
    cluster_name: str = ""
    created_by: Person | None = None
    ended_at: datetime | None = None
    failed: list[int] = Field(default_factory=list)
    id: str = ""
    name: str = ""
    owns_cluster: bool = False
    reason: str = ""
    refused: list[int] = Field(default_factory=list)
    shared_with: list[str] = Field(default_factory=list)


class ArrayPage(Answer):
    """One page of arrays, newest first."""

    arrays: list[ArraySummary] = Field(default_factory=list)
    next_token: str | None = None


class ListPriceView(Answer):
    """What it would cost on AWS, where the deployment's own price list does not say it."""

    as_of: str | None = None
    expected_usd: float | None = None
    hourly_usd: float | None = None
    most_usd: float | None = None
    words: str = ""


class PlannedVariable(Answer):
    """A variable that the run's program will find."""

    source: Open[Literal["job", "secret", "trainyard", "launcher"]]
    name: str = ""
    note: str = ""
    value: str | None = None


class WayView(Answer):
    """A way in which the cluster would be tried."""

    backend: str = ""
    cannot: list[str] = Field(default_factory=list)
    expected_usd: float | None = None
    files: dict[str, int] = Field(default_factory=dict)
    hourly_usd: float | None = None
    most_usd: float | None = None
    operation: str = ""
    request: dict[str, Any] = Field(default_factory=dict)
    warnings: list[str] = Field(default_factory=list)
    way: str = ""
    zones: list[str] = Field(default_factory=list)


class PlanView(Answer):
    """What would be sent, but is not: the backend's exact request, files with sizes, the price."""

    backend: str | None = None
    batch_script: str | None = None
    cannot: list[str] = Field(default_factory=list)
    environment: list[PlannedVariable] = Field(default_factory=list)
    expected_usd: float | None = None
    files: dict[str, int] = Field(default_factory=dict)
    hourly_usd: float | None = None
    list_price: ListPriceView | None = None
    most_usd: float | None = None
    operation: str | None = None
    request: dict[str, Any] = Field(default_factory=dict)
    warnings: list[str] = Field(default_factory=list)
    ways: list[WayView] = Field(default_factory=list)
    zones: list[str] = Field(default_factory=list)


class PriceView(Answer):
    """What it would cost, as far as prices are known."""

    expected_usd: float | None = None
    hourly_usd: float | None = None
    most_usd: float | None = None


class RefusalView(Answer):
    """Something for which it would be refused."""

    code: str = ""
    detail: str = ""
    next_step: str = ""
    run: str = ""


class ArrayPlanView(Answer):
    """What an array would do and cost. Nothing of it is done."""

    all: PriceView
    one: PriceView
    total: int
    first: PlanView | None = None
    first_name: str = ""
    first_parameters: dict[str, str] = Field(default_factory=dict)
    refused: list[RefusalView] = Field(default_factory=list)
    waves: list[int] = Field(default_factory=list)


class ArraySpec(Answer):
    """One member for each entry of `parameters`, or for each combination of `matrix`.  In
    job.arguments, in the values of job.environment and in texts among job.hyperparameters
    `{lr}` is the parameter lr, and `{index}` the member's number; `{{lr}}` is the text
    {lr}."""

    matrix: dict[str, Any] = Field(default_factory=dict)
    max_parallel: int = 20
    parameters: list[dict[str, Any]] = Field(default_factory=list)
    run: dict[str, Any] = Field(default_factory=dict)


class ArrayView(Answer):
    """An array of runs."""

    active: int
    created_at: datetime
    max_parallel: int
    not_begun: int
    spec: ArraySpec
    status: Open[Literal["Running", "Cancelling", "Succeeded", "Failed", "Cancelled"]]
    succeeded: int
    total: int
    updated_at: datetime
    cancelled: list[int] = Field(default_factory=list)
    cluster_name: str = ""
    created_by: Person | None = None
    ended_at: datetime | None = None
    failed: list[int] = Field(default_factory=list)
    id: str = ""
    name: str = ""
    owns_cluster: bool = False
    reason: str = ""
    refused: list[int] = Field(default_factory=list)
    shared_with: list[str] = Field(default_factory=list)


class ArrayMemberView(Answer):
    """One member of an array."""

    index: int
    parameters: dict[str, str] = Field(default_factory=dict)
    reason: str = ""
    run_id: str | None = None
    status: (
        Open[
            Literal[
                "Pending",
                "Waiting",
                "Provisioning",
                "Submitting",
                "Running",
                "Recovering",
                "WaitingForNode",
                "Exporting",
                "TearingDown",
                "Succeeded",
                "Failed",
                "Cancelled",
            ]
        ]
        | None
    ) = None


class ArrayMemberPage(Answer):
    """One page of an array's members, by their numbers."""

    members: list[ArrayMemberView] = Field(default_factory=list)
    next_token: str | None = None


class AuditEntryView(Answer):
    """One change that was asked for, or that Trainyard itself decided."""

    at: datetime
    outcome: Open[Literal["asked", "done", "refused", "failed", "decided"]]
    what: Open[
        Literal[
            "run.submit",
            "run.cancel",
            "run.resume",
            "run.export",
            "run.share",
            "run.transfer",
            "cluster.create",
            "cluster.update",
            "cluster.stop",
            "cluster.start",
            "cluster.delete",
            "cluster.keep",
            "cluster.adopt",
            "cluster.release",
            "cluster.share",
            "cluster.transfer",
            "cluster.label",
            "run.label",
            "run.priority",
            "cluster.sharing",
            "node.replace",
            "node.reboot",
            "filesystem.create",
            "filesystem.export",
            "filesystem.delete",
            "filesystem.share",
            "filesystem.transfer",
            "run.delete-directory",
            "array.submit",
            "array.cancel",
            "array.share",
            "array.transfer",
            "array.begin",
            "approval.approve",
            "approval.deny",
            "webhook.add",
            "webhook.rotate",
            "webhook.redeliver",
            "webhook.remove",
            "budget.set",
            "budget.remove",
            "schedule.create",
            "schedule.pause",
            "schedule.resume",
            "schedule.delete",
            "schedule.share",
            "schedule.transfer",
            "schedule.fire",
            "slack.refused",
        ]
    ]
    detail: str = ""
    id: str = ""
    reason: str = ""
    source_ip: str | None = None
    subject: str = ""
    user_agent: str | None = None
    who: Person | None = None


class AuditPage(Answer):
    """One page of changes, newest first."""

    entries: list[AuditEntryView] = Field(default_factory=list)
    next_token: str | None = None


class SharedBudgetView(Answer):
    """A budget that runs share; its sums are those of the sweep's last look, in USD."""

    created_at: datetime
    held_back_usd: float
    hourly_usd: float
    max_usd: float
    per: Open[Literal["month", "total"]]
    spent_usd: float
    status: Open[Literal["active", "used-up", "deleted"]]
    tail_seconds: int
    unpriced: int
    updated_at: datetime
    at: datetime | None = None
    cluster: str | None = None
    created_by: Person | None = None
    ends_at: datetime | None = None
    forecast_usd: float | None = None
    label: str | None = None
    name: str = ""
    period: str = ""
    stops_at: datetime | None = None
    warn_at: list[float] = Field(default_factory=list)


class SharedBudgetPage(Answer):
    """One page of budgets, newest first."""

    budgets: list[SharedBudgetView] = Field(default_factory=list)
    next_token: str | None = None


class GroupSummary(Answer):
    """Nodes of one kind, in a list of clusters."""

    count: int
    role: Open[Literal["controller", "worker", "login"]]
    spares: int
    instance_type: str = ""
    name: str = ""


class Problem(Answer):
    """Why something ended badly; `nextStep` tells what to do."""

    code: str = ""
    detail: str = ""
    next_step: str = ""
    title: str = ""


class ClusterSummary(Answer):
    """A cluster in a list: what it is and how it is, without its spec."""

    created_at: datetime
    status: (
        Open[
            Literal[
                "Pending",
                "Creating",
                "InService",
                "Ready",
                "Updating",
                "Stopped",
                "Failed",
                "Deleting",
                "Deleted",
            ]
        ]
        | Open[Literal["Releasing", "Released"]]
    )
    updated_at: datetime
    arn: str | None = None
    backend: str = ""
    changing: (
        Open[
            Literal[
                "waiting",
                "begun",
                "stopping",
                "sending",
                "changing",
                "starting",
                "done",
                "refused",
                "rolled-back",
                "failed",
                "withdrawn",
            ]
        ]
        | None
    ) = None
    created_by: Person | None = None
    delete_requested_at: datetime | None = None
    groups: list[GroupSummary] = Field(default_factory=list)
    labels: dict[str, str] = Field(default_factory=dict)
    last_used_at: datetime | None = None
    name: str = ""
    owner_run: str | None = None
    problem: Problem | None = None
    ready_at: datetime | None = None


class ClusterPage(Answer):
    """One page of clusters."""

    clusters: list[ClusterSummary] = Field(default_factory=list)
    next_token: str | None = None


class AdoptedNode(Answer):
    """How far the agent is on one node of a cluster that others made."""

    at: datetime
    state: Open[Literal["asked", "installing", "installed", "failed"]]
    tries: int
    group: str = ""
    reason: str = ""


class Adoption(Answer):
    """Of a cluster that others made. It is never deleted by Trainyard, only released."""

    lacking: int | None = None
    left: list[str] = Field(default_factory=list)
    nodes: dict[str, AdoptedNode] = Field(default_factory=dict)
    replace_nodes: bool = False


class CapacityTry(Answer):
    """One way in which a cluster was tried."""

    began_at: datetime
    number: int
    ended_at: datetime | None = None
    hourly_usd: float | None = None
    reason: str = ""
    way: str = ""


class ClusterChange(Answer):
    """What becomes, or became, of a cluster that is there."""

    asked_at: datetime
    fleet: Open[Literal["running", "stopped"]]
    state: Open[
        Literal[
            "waiting",
            "begun",
            "stopping",
            "sending",
            "changing",
            "starting",
            "done",
            "refused",
            "rolled-back",
            "failed",
            "withdrawn",
        ]
    ]
    asked_by: Person | None = None
    ended_at: datetime | None = None
    forced: bool = False
    outcome: (
        Open[
            Literal[
                "waiting",
                "begun",
                "stopping",
                "sending",
                "changing",
                "starting",
                "done",
                "refused",
                "rolled-back",
                "failed",
                "withdrawn",
            ]
        ]
        | None
    ) = None
    reason: str = ""
    spec: dict[str, Any] | None = None
    stops_fleet: bool = False


class SharingLimit(Answer):
    """What each owner, or all runs of one value of a label, may use of a cluster at once."""

    label: str | None = None
    max_nodes: int | None = None
    max_runs: int | None = None
    owner: str | None = None
    value: str | None = None


class SharingSpec(Answer):
    """Who of those that share the cluster has a turn when, beside the priorities of their runs."""

    fair_by: str | None = None
    limits: list[SharingLimit] = Field(default_factory=list)


class ClusterView(Answer):
    """A cluster."""

    created_at: datetime
    generation: int
    sharing: SharingSpec
    status: (
        Open[
            Literal[
                "Pending",
                "Creating",
                "InService",
                "Ready",
                "Updating",
                "Stopped",
                "Failed",
                "Deleting",
                "Deleted",
            ]
        ]
        | Open[Literal["Releasing", "Released"]]
    )
    updated_at: datetime
    adoption: Adoption | None = None
    arn: str | None = None
    change: ClusterChange | None = None
    created_by: Person | None = None
    delete_forced: bool = False
    delete_requested_at: datetime | None = None
    deleted_by: Person | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    last_heartbeat_at: datetime | None = None
    last_used_at: datetime | None = None
    name: str = ""
    owner_run: str | None = None
    problem: Problem | None = None
    ready_at: datetime | None = None
    shared_with: list[str] = Field(default_factory=list)
    spec: dict[str, Any] = Field(default_factory=dict)
    tries: list[CapacityTry] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)


class ClusterShare(Answer):
    """What a run used of a cluster."""

    run_id: str = ""
    usd: float | None = None


class PriceSpan(Answer):
    """A time in which nodes were there, and the price that was in force then."""

    nodes: int
    share: float
    since: datetime
    source: Open[Literal["list", "given", ""]]
    until: datetime
    ended: bool = False
    hourly_usd: float | None = None


class ClusterCostView(Answer):
    """What the cluster has cost so far, in all generations of its name."""

    at: datetime
    node_seconds: float
    cluster_name: str = ""
    idle_usd: float | None = None
    prices: list[PriceSpan] = Field(default_factory=list)
    reason: str = ""
    runs: list[ClusterShare] = Field(default_factory=list)
    usd: float | None = None


class ClusterNode(Answer):
    """A node: backend state, Slurm state and the newest sample joined."""

    role: Open[Literal["controller", "worker", "login"]]
    address: str | None = None
    agent: str = ""
    group: str = ""
    instance_id: str = ""
    instance_type: str = ""
    launched_at: datetime | None = None
    message: str = ""
    name: str | None = None
    sample: dict[str, Any] | None = None
    scheduler: str = ""
    status: str = ""


class NodeList(Answer):
    """One page of the nodes of a cluster."""

    next_token: str | None = None
    nodes: list[ClusterNode] = Field(default_factory=list)
    samples_left_out: bool = False


class BatchView(Answer):
    """What the backend accepted; `failed` gives its reason by instance id."""

    failed: dict[str, str] = Field(default_factory=dict)
    successful: list[str] = Field(default_factory=list)


class AdoptionPlanView(Answer):
    """What an adoption would mean; nothing was done."""

    policy: dict[str, Any] = Field(default_factory=dict)
    roles: list[str] = Field(default_factory=list)
    spec: dict[str, Any] = Field(default_factory=dict)


class CostTotal(Answer):
    """Of all runs with one owner, cluster or label's value."""

    node_seconds: float
    runs: int
    unpriced: int
    usd: float
    useful_usd: float
    key: str = ""


class CostTotals(Answer):
    """What runs cost, the dearest first; idle time of shared clusters is not in it."""

    at: datetime
    by: str = ""
    left_out: bool = False
    totals: list[CostTotal] = Field(default_factory=list)


class FilesystemExportView(Answer):
    """One copy of what changed, into the repository."""

    asked_by: Open[Literal["person", "schedule", "deletion"]]
    failed_files: int
    files: int
    number: int
    requested_at: datetime
    state: Open[Literal["requested", "running", "verified", "failed"]]
    ended_at: datetime | None = None
    reason: str = ""
    report: str = ""
    started_at: datetime | None = None
    task_id: str | None = None


class FilesystemSummary(Answer):
    """A filesystem in a list."""

    created_at: datetime
    generation: int
    status: Open[
        Literal[
            "Pending",
            "Creating",
            "Linking",
            "Available",
            "Archiving",
            "Deleting",
            "Deleted",
            "Failed",
        ]
    ]
    updated_at: datetime
    available_at: datetime | None = None
    created_by: Person | None = None
    delete_requested_at: datetime | None = None
    dns_name: str = ""
    export: FilesystemExportView | None = None
    fsx_id: str | None = None
    mount_name: str = ""
    name: str = ""
    problem: Problem | None = None
    shared_with: list[str] = Field(default_factory=list)
    spec: dict[str, Any] = Field(default_factory=dict)
    verified_export: FilesystemExportView | None = None
    vpc: str = ""
    waits_for: str = ""
    zone: str = ""


class FilesystemPage(Answer):
    """One page of filesystems."""

    filesystems: list[FilesystemSummary] = Field(default_factory=list)
    next_token: str | None = None


class FilesystemRequestView(Answer):
    """One call of AWS's API, exactly as it would be sent."""

    operation: str = ""
    request: dict[str, Any] = Field(default_factory=dict)


class FilesystemPlanView(Answer):
    """What would be sent, but is not, and what it would cost."""

    monthly_usd: float | None = None
    requests: list[FilesystemRequestView] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)


class TimelineEntry(Answer):
    """One line of a run's timeline: a fact, a decision with its reason, or a change of status."""

    at: datetime
    kind: Open[Literal["fact", "decision", "status"]]
    attempt: int | None = None
    data: dict[str, Any] = Field(default_factory=dict)
    id: str = ""
    message: str = ""
    type: str = ""


class FilesystemView(Answer):
    """A filesystem, with who uses it and what happened to it."""

    created_at: datetime
    generation: int
    status: Open[
        Literal[
            "Pending",
            "Creating",
            "Linking",
            "Available",
            "Archiving",
            "Deleting",
            "Deleted",
            "Failed",
        ]
    ]
    updated_at: datetime
    available_at: datetime | None = None
    clusters: list[str] = Field(default_factory=list)
    created_by: Person | None = None
    delete_requested_at: datetime | None = None
    discard_reason: str = ""
    dns_name: str = ""
    events: list[TimelineEntry] = Field(default_factory=list)
    export: FilesystemExportView | None = None
    fsx_id: str | None = None
    mount_name: str = ""
    name: str = ""
    problem: Problem | None = None
    runs: list[str] = Field(default_factory=list)
    shared_with: list[str] = Field(default_factory=list)
    spec: dict[str, Any] = Field(default_factory=dict)
    used_bytes: int | None = None
    verified_export: FilesystemExportView | None = None
    vpc: str = ""
    waits_for: str = ""
    zone: str = ""


class Export(Answer):
    """One export of the run; only `verified` permits deleting the cluster."""

    bytes: int
    objects: int
    requested_at: datetime
    state: Open[Literal["requested", "running", "failed", "verified"]]
    tries: int
    final: bool = False
    found_nothing: bool = False
    id: str = ""
    left_behind: str = ""
    manifest_key: str = ""
    reason: str = ""
    uri: str = ""


class RunSummary(Answer):
    """A run in a list: where it is and why, without its spec, its files and its attempts."""

    attempt_count: int
    created_at: datetime
    status: Open[
        Literal[
            "Pending",
            "Waiting",
            "Provisioning",
            "Submitting",
            "Running",
            "Recovering",
            "WaitingForNode",
            "Exporting",
            "TearingDown",
            "Succeeded",
            "Failed",
            "Cancelled",
        ]
    ]
    updated_at: datetime
    cluster_deleted: bool = False
    cluster_name: str = ""
    cost_usd: float | None = None
    created_by: Person | None = None
    export: Export | None = None
    finished_at: datetime | None = None
    id: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    name: str = ""
    opened_at: datetime | None = None
    outcome: Open[Literal["succeeded", "failed", "cancelled"]] | None = None
    owns_cluster: bool = False
    problem: Problem | None = None
    reason: str = ""


class RunPage(Answer):
    """One page of runs."""

    next_token: str | None = None
    runs: list[RunSummary] = Field(default_factory=list)


class ApprovalAsked(Answer):
    """The approval that this life of a run waits for, or went on with."""

    expires_at: datetime
    needed: int
    because: str = ""
    id: str = ""
    usd: float | None = None


class ArrayMember(Answer):
    """Which member of which array a run is."""

    index: int
    id: str = ""


class Attempt(Answer):
    """One submission of the run's job."""

    life: int
    number: int
    began_with: str = ""
    down: list[str] = Field(default_factory=list)
    ended_at: datetime | None = None
    exclude: list[str] = Field(default_factory=list)
    first_step_at: datetime | None = None
    job_id: str | None = None
    nodes: list[str] = Field(default_factory=list)
    outcome: Open[Literal["succeeded", "failed", "cancelled", "lost"]] | None = None
    reason: str = ""
    resumed_from: int | None = None
    started_at: datetime | None = None
    submitted_at: datetime | None = None


class Code(Answer):
    """The directory that becomes the run's working directory."""

    bytes: int
    files: int
    commit: str = ""
    ref: str = ""
    tree: str = ""
    url: str = ""


class Incident(Answer):
    """From the first bad fact to the first training step after it.  Where a program tells no step,
    it lasts until the program started again and lived."""

    attempt: int
    life: int
    resumed_by: Open[Literal["step", "start"]]
    started_at: datetime
    actions: list[str] = Field(default_factory=list)
    cause: str = ""
    node: str | None = None
    reason: str = ""
    resumed_at: datetime | None = None


class Sync(Answer):
    """What the run made is in S3 as it was then (export.everySeconds)."""

    at: datetime
    attempt: int
    bytes: int
    left_out: int
    objects: int
    last_step: int | None = None


class RunView(Answer):
    """A run, with the newest sample of its training."""

    created_at: datetime
    generation: int
    life: int
    priority: int
    status: Open[
        Literal[
            "Pending",
            "Waiting",
            "Provisioning",
            "Submitting",
            "Running",
            "Recovering",
            "WaitingForNode",
            "Exporting",
            "TearingDown",
            "Succeeded",
            "Failed",
            "Cancelled",
        ]
    ]
    updated_at: datetime
    after_met_at: datetime | None = None
    approval: ApprovalAsked | None = None
    approval_met_at: datetime | None = None
    array: ArrayMember | None = None
    attempts: list[Attempt] = Field(default_factory=list)
    cancelled_by: Person | None = None
    cluster_deleted: bool = False
    cluster_generation: int | None = None
    cluster_name: str = ""
    code: Code | None = None
    cost_usd: float | None = None
    created_by: Person | None = None
    directory_deleted_at: datetime | None = None
    excluded_nodes: list[str] = Field(default_factory=list)
    export: Export | None = None
    filesystem: str = ""
    finished_at: datetime | None = None
    id: str = ""
    image_digest: str = ""
    incidents: list[Incident] = Field(default_factory=list)
    labels: dict[str, str] = Field(default_factory=dict)
    latest: RunSample | None = None
    name: str = ""
    objects_prefix: str = ""
    opened_at: datetime | None = None
    outcome: Open[Literal["succeeded", "failed", "cancelled"]] | None = None
    owns_cluster: bool = False
    problem: Problem | None = None
    reason: str = ""
    schedule: str = ""
    shared_with: list[str] = Field(default_factory=list)
    spec: dict[str, Any] = Field(default_factory=dict)
    stopping_since: datetime | None = None
    sync: Sync | None = None
    teardown_refused: str = ""
    turn_waits_since: datetime | None = None
    waiting_since: datetime | None = None
    warnings: list[str] = Field(default_factory=list)


class Checkpoint(Answer):
    """A checkpoint that was committed, and what is known of it now."""

    attempt: int
    bytes: int
    committed_at: datetime
    files: int
    status: Open[Literal["whole", "rejected", "pruned"]]
    step: int
    counted: bool = False
    path: str = ""
    reason: str = ""


class CheckpointPage(Answer):
    """One page of a run's checkpoints."""

    checkpoints: list[Checkpoint] = Field(default_factory=list)
    next_token: str | None = None


class BudgetView(Answer):
    """What this life of the run may still spend."""

    held_back_usd: float
    max_usd: float
    spent_usd: float
    stops_at: datetime | None = None


class LedgerLine(Answer):
    """What one cause took; all lines together are the bill."""

    cause: Open[
        Literal[
            "useful",
            "creation",
            "creation-failed",
            "start",
            "waiting",
            "detection",
            "restart",
            "recomputation",
            "stall",
            "saving",
            "teardown",
        ]
    ]
    node_seconds: float
    seconds: float
    usd: float | None = None


class RunCostView(Answer):
    """What the run has cost so far, in all its lives."""

    at: datetime
    node_seconds: float
    budget: BudgetView | None = None
    final: bool = False
    ledger: list[LedgerLine] = Field(default_factory=list)
    prices: list[PriceSpan] = Field(default_factory=list)
    reason: str = ""
    run_id: str = ""
    usd: float | None = None


class EventPage(Answer):
    """One page of a run's timeline."""

    events: list[TimelineEntry] = Field(default_factory=list)
    next_token: str | None = None


class LogView(Answer):
    """The tail of a log. `source` says where it was read: the node itself or the copy in S3."""

    kind: Open[Literal["job", "lifecycle"]]
    attempt: int | None = None
    source: str = ""
    text: str = ""


class CurveName(Answer):
    """A name under which the run reported numbers, in all its attempts."""

    not_finite: int
    reports: int
    highest: float | None = None
    last: float | None = None
    lowest: float | None = None
    name: str = ""


class CurvePoint(Answer):
    """One report of a number."""

    at: datetime
    attempt: int
    step: int
    value: float


class TimedRunSample(Answer):
    """Where the training stood at a moment."""

    at: datetime
    attempt: int
    job_state: str = ""
    loss: float | None = None
    pending_reason: str = ""
    run_id: str = ""
    step: int | None = None


class MetricsView(Answer):
    """Series from the heartbeats, oldest first, `nodes` by Slurm node name; and one curve of all
    that the run reported, which is kept for ever."""

    name: str = "loss"
    names: list[CurveName] = Field(default_factory=list)
    names_left_out: int = 0
    node_count: int = 0
    nodes: dict[str, list[NodeSample]] = Field(default_factory=dict)
    points: list[CurvePoint] = Field(default_factory=list)
    run: list[TimedRunSample] = Field(default_factory=list)
    thinned: bool = False


class Output(Answer):
    """One object of the verified export; `key` is relative to the page's `uri`."""

    bytes: int
    key: str = ""
    sha256: str = ""
    url: str | None = None


class OutputPage(Answer):
    """One page of what a run's export holds."""

    next_token: str | None = None
    outputs: list[Output] = Field(default_factory=list)
    source: Open[Literal["export", "sync"]] = "export"
    synced_at: datetime | None = None
    uri: str = ""
    urls_expire_at: datetime | None = None


class FiringView(Answer):
    """One time at which the schedule was due."""

    at: datetime
    outcome: Open[Literal["submitted", "skipped", "refused"]]
    late: bool = False
    reason: str = ""
    run_id: str | None = None
    run_ids: list[str] = Field(default_factory=list)


class ScheduleSummary(Answer):
    """A schedule in a list, without its run's spec."""

    created_at: datetime
    overlap: Open[Literal["skip", "queue", "replace"]]
    status: Open[Literal["Active", "Paused", "Deleted"]]
    updated_at: datetime
    created_by: Person | None = None
    cron: str | None = None
    last: FiringView | None = None
    name: str = ""
    next_at: datetime | None = None
    rate: str | None = None
    shared_with: list[str] = Field(default_factory=list)
    timezone: str = ""


class SchedulePage(Answer):
    """One page of schedules, newest first."""

    next_token: str | None = None
    schedules: list[ScheduleSummary] = Field(default_factory=list)


class PlannedRun(Answer):
    """A run of each time."""

    name: str = ""
    plan: PlanView | None = None


class PlannedTime(Answer):
    """A time at which a schedule would be due."""

    at: datetime
    local: str = ""


class SchedulePlanView(Answer):
    """When a schedule would submit what. Nothing of it is done."""

    all: PriceView
    one: PriceView
    next_times: list[PlannedTime] = Field(default_factory=list)
    refused: list[RefusalView] = Field(default_factory=list)
    runs: list[PlannedRun] = Field(default_factory=list)
    timezone: str = ""


class BudgetSpec(Answer):
    """What a life of the run may cost, saving and teardown included."""

    max_usd: float
    tail_seconds: int = 1200
    warn_at: list[float] = Field(default_factory=list)


class StartSpec(Answer):
    """A whole checkpoint of another run.  It must lie on the same shared filesystem, or in the
    verified export of a run that was on a cluster of this run's cluster's name."""

    step: int
    run: str = ""


class WatchSpec(Answer):
    """Checkpoints that a program writes in its own way, which the agent looks for and copies.  One
    file or directory that matches is one checkpoint."""

    pattern: str | list[str]
    complete: Open[Literal["auto", "rename", "stable-seconds", "marker-file"]] = "auto"
    marker: str | None = None
    stable_seconds: float = 5


class CheckpointSpec(Answer):
    """When the trainer commits checkpoints and how many are kept on the cluster."""

    directory: str = "checkpoints"
    every_seconds: float | Open[Literal["auto"]] | None = None
    every_steps: int | None = None
    keep: int = 3
    seconds_between_failures: float = 86400
    start_from: StartSpec | None = None
    watch: WatchSpec | None = None


class ClusterRef(Answer):
    """The cluster a run uses: an existing one by `name`, or one made for it from `spec`."""

    name: str | None = None
    otherwise: list[dict[str, Any]] = Field(default_factory=list)
    spec: dict[str, Any] | None = None


class ExportSpec(Answer):
    """What is copied to S3, at the end (always verified object by object) and before."""

    checkpoints: Open[Literal["all", "last", "none"]] = "all"
    enabled: bool = True
    every_seconds: float | None = None


class InputSpec(Answer):
    """Data that are there before the program starts, at each attempt."""

    mode: Open[Literal["copy", "mount"]] = "copy"
    path: str = ""
    source: str = ""


class GitSpec(Answer):
    """A commit of a git repository, whose files become the program's working directory."""

    ca_certificate: str | None = None
    known_hosts: list[str] = Field(default_factory=list)
    path: str | None = None
    ref: str = "HEAD"
    secret: str | None = None
    url: str = ""


class JobPythonEnvironment(Answer):
    """Packages of one job's own.  Built once on the shared filesystem, on top of the cluster's
    environment, before the job's first attempt."""

    kind: Open[Literal["venv", "uv", "conda"]] = "venv"
    python: str | None = None
    requirements: list[str] = Field(default_factory=list)


class JobSpec(Answer):
    """What runs on the nodes. Every string reaches the process as data: no shell ever reads it."""

    nodes: int
    arguments: list[str | float] = Field(default_factory=list)
    environment: dict[str, Any] = Field(default_factory=dict)
    files: dict[str, str] = Field(default_factory=dict)
    git: GitSpec | None = None
    hyperparameters: dict[str, Any] | None = None
    image: str | None = None
    module: str | None = None
    partition: str | None = None
    precompile: bool = False
    processes_per_node: int = 1
    python_environment: JobPythonEnvironment | None = None
    recipe: Open[Literal["accelerate", "command", "deepspeed", "mpirun", "neuron", "torchrun"]] = (
        "torchrun"
    )
    script: str | None = None
    secrets: dict[str, Any] = Field(default_factory=dict)
    workdir: str | None = None


class LimitSpec(Answer):
    """Hard bounds of the run's life."""

    cluster_deadline_seconds: int = 3600
    expected_seconds: int | None = None
    max_duration_seconds: int = 604800


class ProgressSource(Answer):
    """Where the steps of a program that reports none are read, instead of its log."""

    mlflow: str | None = None
    regex: str | None = None
    tensorboard: str | None = None
    wandb: str | None = None


class RecoverySpec(Answer):
    """The budgets of the recovery policy."""

    in_place_restarts_per_node: int = 2
    max_attempts: int = 10
    same_error_limit: int = 2
    wait_for_node_seconds: int = 3600


class ChainedRun(Answer):
    """A run of a chain: `after` and run:NAME/outputs name runs above it, of the same time."""

    cluster: ClusterRef
    job: JobSpec
    after: list[str] = Field(default_factory=list)
    after_policy: Open[Literal["success", "end"]] = "success"
    budget: BudgetSpec | None = None
    checkpoint: CheckpointSpec | None = None
    export: ExportSpec | None = None
    inputs: list[InputSpec] = Field(default_factory=list)
    labels: dict[str, str] = Field(default_factory=dict)
    limits: LimitSpec | None = None
    name: str = ""
    priority: int = 0
    progress: Open[Literal["auto", "none"]] | ProgressSource = "auto"
    recovery: RecoverySpec | None = None
    teardown: Open[Literal["always", "on-success", "never"]] | None = None


class ScheduleSpec(Answer):
    """When which runs are submitted, and what happens while those before them still train."""

    cron: str | None = None
    name: str = ""
    overlap: Open[Literal["skip", "queue", "replace"]] = "skip"
    rate: str | None = None
    run: dict[str, Any] | None = None
    runs: list[ChainedRun] = Field(default_factory=list)
    timezone: str = "UTC"


class ScheduleView(Answer):
    """A schedule, with the times that come and those that were."""

    created_at: datetime
    overlap: Open[Literal["skip", "queue", "replace"]]
    spec: ScheduleSpec
    status: Open[Literal["Active", "Paused", "Deleted"]]
    updated_at: datetime
    created_by: Person | None = None
    cron: str | None = None
    firings: list[FiringView] = Field(default_factory=list)
    last: FiringView | None = None
    name: str = ""
    next_at: datetime | None = None
    next_times: list[datetime] = Field(default_factory=list)
    rate: str | None = None
    shared_with: list[str] = Field(default_factory=list)
    timezone: str = ""


class MissingObject(Answer):
    """An object that is to be PUT to `url`, with all of these headers and these very bytes."""

    bytes: int
    headers: dict[str, str] = Field(default_factory=dict)
    sha256: str = ""
    url: str = ""


class Upload(Answer):
    """An upload: what of it is missing. `id` is what `job.workdir` names once it is Complete."""

    state: Open[Literal["Incomplete", "Complete"]]
    expires_at: datetime | None = None
    id: str = ""
    missing: list[MissingObject] = Field(default_factory=list)
    missing_count: int = 0


class WebhookSummary(Answer):
    """A receiver, without its secret."""

    created_at: datetime
    status: Open[Literal["Active", "Disabled", "Deleted"]]
    updated_at: datetime
    created_by: Person | None = None
    description: str = ""
    disabled_because: str = ""
    failing_since: datetime | None = None
    held_until: datetime | None = None
    id: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    rotated_at: datetime | None = None
    types: list[
        Open[
            Literal[
                "run.submitted",
                "run.started",
                "run.recovered",
                "run.finished",
                "run.failed",
                "run.cancelled",
                "run.budget",
                "approval.needed",
                "approval.approved",
                "approval.denied",
                "approval.expired",
                "cluster.ready",
                "cluster.failed",
                "cluster.idle",
                "cluster.deleted",
                "budget.warned",
                "budget.exhausted",
                "webhook.disabled",
            ]
        ]
    ] = Field(default_factory=list)
    url: str = ""


class WebhookPage(Answer):
    """One page of webhooks, newest first."""

    next_token: str | None = None
    webhooks: list[WebhookSummary] = Field(default_factory=list)


class WebhookWithSecret(Answer):
    """A receiver, with a secret that no other answer has."""

    created_at: datetime
    status: Open[Literal["Active", "Disabled", "Deleted"]]
    updated_at: datetime
    created_by: Person | None = None
    description: str = ""
    disabled_because: str = ""
    failing_since: datetime | None = None
    held_until: datetime | None = None
    id: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    rotated_at: datetime | None = None
    secret: str | None = None
    types: list[
        Open[
            Literal[
                "run.submitted",
                "run.started",
                "run.recovered",
                "run.finished",
                "run.failed",
                "run.cancelled",
                "run.budget",
                "approval.needed",
                "approval.approved",
                "approval.denied",
                "approval.expired",
                "cluster.ready",
                "cluster.failed",
                "cluster.idle",
                "cluster.deleted",
                "budget.warned",
                "budget.exhausted",
                "webhook.disabled",
            ]
        ]
    ] = Field(default_factory=list)
    url: str = ""


class TryView(Answer):
    """One request to the receiver."""

    at: datetime
    said: str = ""
    status: int | None = None


class DeliveryView(Answer):
    """One event for one receiver."""

    created_at: datetime
    state: Open[Literal["waiting", "delivered", "failed"]]
    event_id: str = ""
    id: str = ""
    next_try_at: datetime | None = None
    tries: list[TryView] = Field(default_factory=list)
    type: str = ""


class WebhookView(Answer):
    """A receiver, with what became of the newest deliveries."""

    created_at: datetime
    status: Open[Literal["Active", "Disabled", "Deleted"]]
    updated_at: datetime
    created_by: Person | None = None
    deliveries: list[DeliveryView] = Field(default_factory=list)
    description: str = ""
    disabled_because: str = ""
    failing_since: datetime | None = None
    held_until: datetime | None = None
    id: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    rotated_at: datetime | None = None
    types: list[
        Open[
            Literal[
                "run.submitted",
                "run.started",
                "run.recovered",
                "run.finished",
                "run.failed",
                "run.cancelled",
                "run.budget",
                "approval.needed",
                "approval.approved",
                "approval.denied",
                "approval.expired",
                "cluster.ready",
                "cluster.failed",
                "cluster.idle",
                "cluster.deleted",
                "budget.warned",
                "budget.exhausted",
                "webhook.disabled",
            ]
        ]
    ] = Field(default_factory=list)
    url: str = ""


class WhoamiView(Answer):
    """The signer of this request."""

    person: Person
    everybody_is_admin: bool = False
    role: Open[Literal["viewer", "member", "admin"]] | None = None

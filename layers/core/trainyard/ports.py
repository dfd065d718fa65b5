"""The Protocols that use cases need.

Adapters are in `aws/` and `backends/`, in-memory twins in tests/support.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from trainyard.domain.adoption import ForeignCluster
from trainyard.domain.approval_records import Approval
from trainyard.domain.approvals import ApprovalRules
from trainyard.domain.array_records import RunArray
from trainyard.domain.audit import AuditEntry, AuditQuery
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.filesystems import Life, TaskEnd
from trainyard.domain.listing import EVERYTHING, Wanted
from trainyard.domain.notices import Notice
from trainyard.domain.people import RolesOfPeople
from trainyard.domain.records import Checkpoint, Cluster, ClusterNode, Run, TimelineEntry, Wait
from trainyard.domain.schedule_records import Schedule
from trainyard.domain.states import BackendStatus
from trainyard.domain.team_budget_records import TeamBudget
from trainyard.domain.turn_records import Turns as TurnsRecord
from trainyard.domain.webhook_records import Delivery, Webhook
from trainyard.domain.webhooks import Answer
from trainyard_contracts.adopting import AdoptSpec
from trainyard_contracts.cluster_base import ClusterBase
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.events import ClusterHeartbeat, Fact
from trainyard_contracts.files import ExportedObject
from trainyard_contracts.filesystems import FilesystemSpec
from trainyard_contracts.inputs import S3Prefix
from trainyard_contracts.specs import JobSpec
from trainyard_contracts.trees import Pack
from trainyard_contracts.user_events import UserEvent

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list.

    `next_token` is opaque and bound to its query (another query's token: errors.BadPageToken).
    """

    items: list[T]
    next_token: str | None = None


@dataclass(frozen=True)
class CommandResult:
    """A finished remote command."""

    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class BackendCluster:
    """The backend's own view.

    `said` is its own word for the status, to be shown and never compared.
    """

    backend: str
    arn: str
    name: str
    status: BackendStatus
    said: str
    failure_message: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None


@dataclass(frozen=True)
class BackendRequest:
    """What `create` would send: the exact request and the files it would upload (key -> bytes).

    Of a cluster whose nodes come with jobs it is the request of a run's first job. `warnings` are
    what the backend says of it and takes it all the same.
    """

    operation: str
    request: dict[str, Any]
    files: dict[str, int]
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class ChangePlan:
    """What a change of a cluster that is there would send, and what it takes.

    `nothing`: the backend sees no difference; what changes is Trainyard's own.
    """

    request: BackendRequest
    stops_fleet: bool = False
    nothing: bool = False


@dataclass(frozen=True)
class ChangeSeen:
    """How far the backend is with the newest change of a cluster.

    `updated` is its word for when the cluster changed last, to be compared for equality only.
    """

    state: Literal["changing", "complete", "rolled-back", "failed"]
    fleet: Literal["running", "stopped", "changing"]
    said: str
    reason: str = ""
    updated: str = ""


@dataclass(frozen=True)
class BackendEvent:
    """A fact that a backend reports, with the cluster that it is about, or with the run.

    That is the cluster with this ARN. Where the backend knows no ARN, it is the one with this mark.
    With a run, the fact says of which attempt it is, and the cluster is that of the run.
    """

    cluster_name: str
    cluster_arn: str
    fact: Fact
    mark: str = ""
    run_id: str = ""


@dataclass(frozen=True)
class Product:
    """What AWS's price list bills a node as.

    Any of `filters` finds it, and `usage_type` matches.
    """

    service: str
    filters: tuple[Mapping[str, str], ...]
    usage_type: str


@dataclass(frozen=True)
class DeadLetter:
    """An event that could not be recorded.

    `body` is its envelope as EventBridge delivered it, `receipt` is what it is forgotten by.
    """

    receipt: str
    body: str


@dataclass(frozen=True)
class BatchResult:
    """Outcome of a replace or reboot, per node id."""

    successful: list[str]
    failed: dict[str, str]  # node id -> AWS's reason


class Clock(Protocol):
    def now(self) -> datetime:
        """Aware UTC time."""
        ...


class Ids(Protocol):
    def ulid(self) -> str:
        """A fresh 26-character upper-case ULID."""
        ...

    def random(self, count: int) -> bytes:
        """So many bytes that nobody can guess."""
        ...


class Runs(Protocol):
    """Runs, their facts, timeline, checkpoints."""

    def create(self, run: Run, *, idempotency_key: str | None, body_hash: str) -> Run:
        """Store a new run in one conditional write.

        With a known key and the same body hash return the stored run.
        Raises errors.IdempotencyConflict for a known key with another body hash.
        """
        ...

    def by_key(self, idempotency_key: str, body_hash: str, *, at: datetime) -> Run | None:
        """The run that was stored with this key, as it is now.

        None for a key that is new, or expired at that time.
        Raises errors.IdempotencyConflict for a known key with another body hash.
        """
        ...

    def get(self, run_id: str) -> Run:
        """Raises errors.RunNotFound, errors.RecordUnreadable."""
        ...

    def children(self, run_id: str) -> builtins.list[str]:
        """Ids of the runs whose spec names this one in `after`; `create` stores them with these."""
        ...

    def put(self, run: Run, lines: Sequence[TimelineEntry] = ()) -> Run:
        """Write if the stored version equals run.version. Raises errors.ConflictError.

        Returns it with version + 1 and updated_at.
        The timeline lines are written with it or not at all; one whose id is known changes nothing.
        """
        ...

    def list(self, *, limit: int, token: str | None, wanted: Wanted = EVERYTHING) -> Page[Run]:
        """Those that are wanted, without what this version cannot read.

        A page may have fewer than `limit` and be followed by another one all the same. Raises
        errors.BadPageToken.
        """
        ...

    def beginning(self, prefix: str, *, at_most: int) -> builtins.list[str]:
        """Ids that begin so, newest first."""
        ...

    def active(self) -> builtins.list[Run]:
        """Every run that is not terminal (sparse index) and that this version can read."""
        ...

    def on_cluster(self, cluster_name: str) -> builtins.list[Run]:
        """Active runs that use the cluster, without what this version cannot read."""
        ...

    def unreadable_on(self, cluster_name: str) -> builtins.list[str]:
        """Ids of active runs that this version cannot read, and that may use the cluster."""
        ...

    def record(self, run_id: str, fact: Fact, message: str) -> bool:
        """Record a fact and its timeline line once, by fact.id; False if it was there already."""
        ...

    def facts(self, run_id: str, attempt: int | None = None) -> builtins.list[Fact]:
        """Facts in order of `at`, then id; those without an attempt are always included."""
        ...

    def note(self, run_id: str, entry: TimelineEntry) -> None:
        """Add a timeline entry; the same id again changes nothing."""
        ...

    def timeline(self, run_id: str, *, limit: int, token: str | None) -> Page[TimelineEntry]:
        """Oldest first."""
        ...

    def put_checkpoint(self, run_id: str, checkpoint: Checkpoint) -> None:
        """Idempotent by (step, attempt), in any order.

        'rejected' wins over 'pruned', and 'pruned' over 'whole'. A pruned one keeps the details of
        the whole one that it was.
        """
        ...

    def checkpoints(self, run_id: str, *, limit: int, token: str | None) -> Page[Checkpoint]:
        """Newest step first."""
        ...


class Arrays(Protocol):
    """Arrays of runs."""

    def create(self, array: RunArray) -> RunArray:
        """Store it, or answer with the one that is there by its id."""
        ...

    def get(self, array_id: str) -> RunArray:
        """Raises errors.ArrayNotFound, errors.RecordUnreadable."""
        ...

    def put(self, array: RunArray) -> RunArray:
        """As Runs.put."""
        ...

    def list(self, *, limit: int, token: str | None) -> Page[RunArray]:
        """As Runs.list."""
        ...

    def active(self) -> builtins.list[RunArray]:
        """Every array that is not over and that this version can read."""
        ...


class Approvals(Protocol):
    """Approvals, which are decided once and stay."""

    def create(self, approval: Approval) -> Approval:
        """Store it, or answer with the one that is there by its id."""
        ...

    def get(self, approval_id: str) -> Approval:
        """Raises errors.ApprovalNotFound, errors.RecordUnreadable."""
        ...

    def put(self, approval: Approval) -> Approval:
        """As Runs.put."""
        ...

    def list(
        self, *, limit: int, token: str | None, states: frozenset[str] = frozenset()
    ) -> Page[Approval]:
        """As Runs.list; without states, all."""
        ...

    def pending(self) -> builtins.list[Approval]:
        """Every one that nobody decided and that this version can read."""
        ...


class TeamBudgets(Protocol):
    """Budgets that runs share."""

    def create(self, budget: TeamBudget) -> TeamBudget:
        """Store it, or answer with the one that is there by its name."""
        ...

    def get(self, name: str) -> TeamBudget:
        """Also one that is Deleted. Raises errors.BudgetNotFound, errors.RecordUnreadable."""
        ...

    def put(self, budget: TeamBudget, notices: Sequence[Notice] = ()) -> TeamBudget:
        """As Runs.put; people hear of the notices if it is written, of each id once."""
        ...

    def list(self, *, limit: int, token: str | None) -> Page[TeamBudget]:
        """As Runs.list, without those that are Deleted."""
        ...

    def active(self) -> builtins.list[TeamBudget]:
        """Every one that is not Deleted and that this version can read."""
        ...


class Webhooks(Protocol):
    """Webhooks and their deliveries; no secret is among them."""

    def create(self, webhook: Webhook) -> Webhook:
        """Store it, or answer with the one that is there by its id."""
        ...

    def get(self, webhook_id: str) -> Webhook:
        """Raises errors.WebhookNotFound, errors.RecordUnreadable."""
        ...

    def put(self, webhook: Webhook, notice: Notice | None = None) -> Webhook:
        """As Runs.put; people hear of the notice if it is written."""
        ...

    def list(self, *, limit: int, token: str | None) -> Page[Webhook]:
        """As Runs.list, without those that are Deleted."""
        ...

    def active(self) -> builtins.list[Webhook]:
        """Every one that is sent to and that this version can read."""
        ...

    def add(self, delivery: Delivery) -> bool:
        """Store it; False if it was there already."""
        ...

    def delivery(self, webhook_id: str, delivery_id: str) -> Delivery:
        """Raises errors.DeliveryNotFound, errors.RecordUnreadable."""
        ...

    def put_delivery(self, delivery: Delivery) -> Delivery:
        """As Runs.put."""
        ...

    def deliveries(self, webhook_id: str, *, at_most: int) -> builtins.list[Delivery]:
        """Newest event first."""
        ...

    def due(self, webhook_id: str, now: datetime, *, at_most: int) -> builtins.list[Delivery]:
        """Those that wait for a try; one that was written just now may be missing."""
        ...

    def dispatch(self, delivery: Delivery) -> None:
        """Have it tried by a process of its own. Raises errors.RetryableError."""
        ...


class Receivers(Protocol):
    """Addresses of people's own, which are sent to and not trusted."""

    @property
    def loopback(self) -> bool:
        """Whether those on this machine may be reached; on the local cloud only."""
        ...

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """One request. Never raises for what a receiver or its name does."""
        ...


class Schedules(Protocol):
    """Schedules."""

    def create(self, schedule: Schedule) -> Schedule:
        """Conditional on no schedule of that name that is not Deleted.

        Raises errors.ScheduleExists.
        """
        ...

    def get(self, name: str) -> Schedule:
        """Raises errors.ScheduleNotFound, errors.RecordUnreadable."""
        ...

    def put(self, schedule: Schedule) -> Schedule:
        """As Runs.put."""
        ...

    def list(self, *, limit: int, token: str | None) -> Page[Schedule]:
        """As Runs.list, without those that are Deleted."""
        ...

    def active(self) -> builtins.list[Schedule]:
        """Every one that is not Deleted, or that EventBridge Scheduler still may have."""
        ...


class Scheduler(Protocol):
    """EventBridge Scheduler: it calls the function of steps when a schedule is due."""

    def place(self, schedule: Schedule, begins: datetime | None) -> None:
        """Make or change it to be as the record says; `begins`: when a rate is due next."""
        ...

    def remove(self, name: str) -> None:
        """Remove it if it is there."""
        ...


class Waits(Protocol):
    """Task tokens of waiting machines, one per owner; a new wait replaces the old."""

    def store(self, wait: Wait) -> bool:
        """Store it unless a wait that began later is there; False if so."""
        ...

    def get(self, owner: str) -> Wait | None: ...

    def mark_woken(self, owner: str, token: str, at: datetime) -> bool:
        """Conditionally mark this very token as woken; False if another token is stored or none."""
        ...

    def clear(self, owner: str, token: str) -> None:
        """Remove the wait if it is still this token."""
        ...

    def all(self) -> builtins.list[Wait]: ...


class Turns(Protocol):
    """Whose turn it is on each cluster that runs share."""

    def get(self, cluster_name: str) -> TurnsRecord:
        """Those of a cluster; version 0 where nobody had one yet.

        Raises errors.RecordUnreadable.
        """
        ...

    def put(self, turns: TurnsRecord) -> TurnsRecord:
        """As Runs.put, without updated_at; of version 0 if there is none yet."""
        ...


class Clusters(Protocol):
    """Clusters and their heartbeats."""

    def create(self, cluster: Cluster) -> Cluster:
        """Conditional on no cluster of that name. Raises errors.ClusterExists.

        One that is Deleted, or Failed and gone, may be there: then generation + 1.
        """
        ...

    def get(self, name: str) -> Cluster:
        """Raises errors.ClusterNotFound, errors.RecordUnreadable."""
        ...

    def put(self, cluster: Cluster) -> Cluster:
        """As Runs.put."""
        ...

    def succeed(self, cluster: Cluster, successor: Cluster) -> Cluster:
        """Put the successor in the cluster's place, if that is stored as it is given.

        Nothing that `touch` wrote is left. Raises errors.ConflictError.
        """
        ...

    def list(self, *, limit: int, token: str | None, wanted: Wanted = EVERYTHING) -> Page[Cluster]:
        """As Runs.list."""
        ...

    def active(self) -> builtins.list[Cluster]:
        """Every cluster whose status is not Deleted and that this version can read."""
        ...

    def touch(
        self, name: str, *, used_at: datetime | None = None, heartbeat_at: datetime | None = None
    ) -> None:
        """Set last_used_at / last_heartbeat_at without touching `version`; never backwards."""
        ...

    def record(self, name: str, fact: Fact) -> bool:
        """As Runs.record, for facts of the cluster itself."""
        ...

    def facts(self, name: str) -> builtins.list[Fact]: ...

    def tell(self, name: str, notice: Notice) -> bool:
        """People hear of it once, by the notice's id; False if they did already."""
        ...

    def put_heartbeat(self, heartbeat: ClusterHeartbeat) -> None:
        """Keep one heartbeat, with a TTL of 7 days; the same id again changes nothing."""
        ...

    def heartbeats(
        self, name: str, *, since: datetime, until: datetime | None = None, limit: int
    ) -> builtins.list[ClusterHeartbeat]:
        """Newest `limit` of those from `since` to `until` (default: now), oldest first."""
        ...


class Audit(Protocol):
    """Who changed what. Entries expire after the time that the stack says."""

    def add(self, entry: AuditEntry) -> bool:
        """Keep it once by its id; False if it was there already."""
        ...

    def settle(self, entry: AuditEntry) -> None:
        """Replace the entry of this time and id by one that says how it ended."""
        ...

    def list(self, query: AuditQuery, *, limit: int, token: str | None) -> Page[AuditEntry]:
        """Newest first. A page may have fewer entries than `limit` and yet another page after it.

        Raises errors.BadPageToken.
        """
        ...


class Filesystems(Protocol):
    """Filesystems with a life of their own."""

    def create(self, filesystem: Filesystem) -> Filesystem:
        """As Clusters.create. Raises errors.FilesystemExists."""
        ...

    def get(self, name: str) -> Filesystem:
        """Raises errors.FilesystemNotFound, errors.RecordUnreadable."""
        ...

    def put(self, filesystem: Filesystem) -> Filesystem:
        """As Runs.put."""
        ...

    def list(
        self, *, limit: int, token: str | None, wanted: Wanted = EVERYTHING
    ) -> Page[Filesystem]:
        """As Runs.list."""
        ...

    def active(self) -> builtins.list[Filesystem]:
        """Every filesystem whose status is not Deleted and that this version can read."""
        ...


@dataclass(frozen=True)
class SeenFilesystem:
    """FSx's own view of a filesystem; `said` is its own word for the state, to be shown only."""

    fsx_id: str
    arn: str
    life: Life
    said: str
    dns_name: str = ""
    mount_name: str = ""
    vpc: str = ""
    #: One of those from which it is reached; a filesystem lies in its zone.
    subnet: str = ""
    failure_message: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None


@dataclass(frozen=True)
class SeenLink:
    """FSx's own view of a link to a repository."""

    life: Life
    said: str
    failure_message: str = ""


class Lustre(Protocol):
    """FSx for Lustre.

    Each method that changes something may be repeated, and changes nothing then. AWS's refusals are
    errors.BackendRejected; errors.ConflictError is what passes by itself.
    """

    def plan(self, filesystem: Filesystem) -> builtins.list[BackendRequest]:
        """The exact requests of its creation, with nothing sent."""
        ...

    def create(self, filesystem: Filesystem) -> SeenFilesystem: ...

    def find(self, filesystem: Filesystem) -> SeenFilesystem | None:
        """The one that was made for this very record, by its tags."""
        ...

    def describe(self, fsx_id: str) -> SeenFilesystem | None:
        """None = does not exist."""
        ...

    def link(self, filesystem: Filesystem) -> str:
        """Link it to its repository and import what is there. Returns the link's id."""
        ...

    def linked(self, association_id: str) -> SeenLink | None: ...

    def exports_itself(self, filesystem: Filesystem, on: bool) -> None:
        """Whether FSx exports changes by itself; it cannot while an export runs."""
        ...

    def export(self, filesystem: Filesystem, number: int) -> str:
        """Begin to export what changed. Returns the task's id."""
        ...

    def task(self, task_id: str) -> TaskEnd | None: ...

    def busy(self, fsx_id: str) -> str:
        """The id of a task that runs on it; '' if none does."""
        ...

    def delete(self, filesystem: Filesystem) -> None: ...

    def tagged(self) -> builtins.list[SeenFilesystem]:
        """Filesystems that carry this deployment's tag."""
        ...

    def made_with(self, cluster: Cluster) -> SeenFilesystem | None:
        """The one that the backend made with this very cluster, by the tags that it handed on."""
        ...

    def link_of(self, fsx_id: str) -> str:
        """The id of its link to the bucket that all of it is in; '' while there is none."""
        ...

    def used_bytes(self, fsx_id: str) -> int | None:
        """What its files take, compressed; None where CloudWatch does not say."""
        ...


class Place(NamedTuple):
    """Where a subnet is."""

    vpc: str
    zone: str


class Networks(Protocol):
    def places(self, subnet_ids: Sequence[str]) -> Mapping[str, Place]:
        """Where each subnet is; one that there is not is left out."""
        ...


class OfBackend(Protocol):
    """What lives in one backend: a cluster, its spec, what was seen of it."""

    @property
    def backend(self) -> str: ...


class Commands(Protocol):
    def run(
        self, cluster: Cluster, argv: Sequence[str], *, timeout_seconds: float
    ) -> CommandResult:
        """Run a command of `trainyard_contracts.commands` on what speaks for the cluster.

        Raises errors.NodeUnreachable (retryable), errors.CommandTimeout, errors.SessionEncrypted.
        """
        ...


class Changes(Protocol):
    """How clusters that are there get another spec, and how their workers are stopped and started.

    Each method that changes something may be repeated. Raises errors.BackendRejected with the
    backend's reason, errors.ConflictError while another operation runs.
    """

    def plan(self, cluster: Cluster, wanted: ClusterBase) -> ChangePlan:
        """Let the backend judge it; nothing is changed."""
        ...

    def apply(self, cluster: Cluster, wanted: ClusterBase) -> bool:
        """Ask for it; False if the backend sees no difference (any more)."""
        ...

    def restore(self, cluster: Cluster) -> None:
        """After a change that was undone: put the files of its nodes back as they were."""
        ...

    def look(self, cluster: Cluster) -> ChangeSeen | None:
        """None = does not exist."""
        ...

    def set_fleet(self, cluster: Cluster, *, running: bool) -> None:
        """Ask for its workers to be started or stopped."""
        ...


@dataclass(frozen=True)
class NodeAnswer:
    """How far a node is with what it was asked for, and why not further.

    'taken': another Trainyard has it. 'gone': nothing of ours is there (any more).
    """

    state: Literal["installing", "installed", "failed", "taken", "gone"]
    reason: str = ""
    left: Sequence[str] = ()


class Adoptions(Protocol):
    """How clusters that others made come under our care, and out of it again.

    Each method that changes something may be repeated.
    """

    def look(self, name_or_arn: str) -> ForeignCluster | None:
        """None = does not exist."""
        ...

    def spec(self, asked: AdoptSpec, seen: ForeignCluster) -> ClusterSpec:
        """The cluster as a spec; nothing stands against it."""
        ...

    def policy(self, cluster: Cluster) -> Mapping[str, Any]:
        """What the role of its nodes must allow besides, as a document of IAM."""
        ...

    def offer(self, cluster: Cluster) -> None:
        """Put what its nodes fetch where they find it; the cluster itself is not touched."""
        ...

    def install(self, cluster: Cluster, node: ClusterNode) -> NodeAnswer:
        """Have the node fetch and install the agent, unless it has it.

        Raises errors.NodeUnreachable, errors.CommandFailed.
        """
        ...

    def take_back(self, cluster: Cluster, node: ClusterNode) -> NodeAnswer:
        """Have the node remove what `install` made. Raises as `install`."""
        ...


class Backend(Commands, Protocol):
    """Where clusters live; a command to one reaches the agent of its controller."""

    @property
    def changes(self) -> Changes | None:
        """None where clusters that are there cannot be changed."""
        ...

    @property
    def adoptions(self) -> Adoptions | None:
        """None where clusters that others made cannot be adopted."""
        ...

    def plan(
        self, cluster: Cluster, *, tried: bool = True, job: JobSpec | None = None
    ) -> BackendRequest:
        """The exact request and files of `create`, with nothing made.

        `tried`: a backend that can judge a request without making anything is asked to. That may
        take long. `job`: what the request of a backend is made of whose nodes come with each job.
        """
        ...

    def create(self, cluster: Cluster) -> str:
        """Upload the lifecycle bundle and create the cluster. Returns the ARN.

        Idempotent by the record's name and mark. Raises errors.BackendRejected with AWS's reason,
        errors.NoCapacity, errors.ClusterNameTaken (the cluster is not ours, or another record's).
        """
        ...

    def attend(self, cluster: Cluster) -> None:
        """Do what `create` could not do yet, as often as its making is looked at.

        Again changes nothing. What fails here hinders no cluster.
        """
        ...

    def describe(self, name: str) -> BackendCluster | None:
        """None = does not exist."""
        ...

    def read_event(self, envelope: Mapping[str, Any], now: datetime) -> BackendEvent | str | None:
        """An event of EventBridge as a fact, or why it is dropped.

        None where it is not this backend's.
        """
        ...

    def event_reason(self, name: str, event_id: str) -> str:
        """Why the event of a cluster happened, where the backend says it; '' where it does not."""
        ...

    def nodes(self, cluster: Cluster) -> builtins.list[ClusterNode]: ...

    def controller(self, cluster: Cluster) -> ClusterNode | None:
        """The controller, found without looking at every node; None while there is none."""
        ...

    def product(self, instance_type: str) -> Product:
        """Where the price list has a node of this type."""
        ...

    def replace(self, name: str, instance_ids: Sequence[str]) -> BatchResult: ...

    def reboot(self, name: str, instance_ids: Sequence[str]) -> BatchResult: ...

    def delete(self, name: str) -> bool:
        """Ask for deletion; False if it is already gone.

        Raises errors.ConflictError while another operation runs.
        """
        ...

    def clean_up(self, name: str, generation: int) -> None:
        """Remove what `create` made beside this generation of the cluster, which is gone.

        Again changes nothing.
        """
        ...

    def remains(self) -> builtins.list[Remains]:
        """What `create` made beside clusters and nobody removed yet."""
        ...

    def tagged(self) -> builtins.list[BackendCluster]:
        """Clusters that carry this deployment's tag."""
        ...

    def lifecycle_log(self, cluster: Cluster, *, lines: int, instance_id: str | None = None) -> str:
        """Tail of the lifecycle script's log; '' if there is none.

        It is that of `instance_id`, else of the instance that failed.
        """
        ...


class Blobs(Protocol):
    """Objects of the data bucket."""

    bucket: str

    def put(self, key: str, body: bytes) -> None: ...

    def get(self, key: str) -> bytes:
        """Raises errors.BlobNotFound."""
        ...

    def head(self, key: str) -> tuple[int, str | None] | None:
        """(bytes, SHA-256 checksum), or None if there is no such object.

        The checksum is as S3 shows it: base64, '<base64>-<parts>' of an object that was uploaded in
        parts, or None.
        """
        ...


@dataclass(frozen=True)
class PutRequest:
    """One PUT that S3 takes: of these very bytes, with all of these headers, until it expires."""

    url: str
    headers: Mapping[str, str]


class Uploads(Protocol):
    """Trees and packs that clients themselves put into the data bucket."""

    def held(self, part: Pack) -> datetime | None:
        """When these very bytes were uploaded; None if they are not there."""
        ...

    def request(self, part: Pack, *, seconds: int) -> PutRequest: ...

    def copy(self, source: str, key: str) -> bool:
        """Copy an object of the data bucket; False if there is no such object."""
        ...


class Sources(Protocol):
    """Objects that runs read, in buckets that are not ours."""

    def look(self, source: S3Prefix) -> Literal["there", "empty", "no-bucket", "unknown"]:
        """Whether there is any; 'unknown' where we may not see it."""
        ...


class Exports(Protocol):
    """What was exported to the data bucket."""

    def objects(self, manifest_key: str, *, limit: int, token: str | None) -> Page[ExportedObject]:
        """A page of what a manifest names, in its order.

        Raises errors.BlobNotFound, errors.BadPageToken, and errors.ConflictError if the manifest
        was replaced since the page before.
        """
        ...

    def copy(self, source: str, key: str) -> bool:
        """Copy an object of the data bucket, however large; False if there is no such object."""
        ...

    def url(self, key: str, *, seconds: int) -> str:
        """A URL that anybody can read the object by for so long."""
        ...


@dataclass(frozen=True)
class Directory:
    """Of a run whose nodes share no filesystem, in the data bucket."""

    cluster: str
    run_id: str

    @property
    def name(self) -> str:
        return f"{self.cluster}/{self.run_id}"


class Directories(Protocol):
    """The directories of runs that are in the data bucket."""

    def clusters(self) -> Sequence[str]:
        """The clusters whose runs have any."""
        ...

    def of(self, cluster: str) -> Sequence[Directory]: ...

    def files(self, directory: Directory) -> Mapping[str, int]:
        """What an export may take of it: sizes by path."""
        ...

    def delete(self, directory: Directory, paths: Sequence[str]) -> None:
        """In this order."""
        ...


class Executions(Protocol):
    """State machines."""

    def start(
        self, machine: Literal["run", "cluster", "teardown"], name: str, payload: Mapping[str, Any]
    ) -> None:
        """StartExecution; the same name again is fine."""
        ...

    def status(self, machine: Literal["run", "cluster", "teardown"], name: str) -> str | None:
        """RUNNING, SUCCEEDED, FAILED, TIMED_OUT, ABORTED, or None if it never started."""
        ...

    def succeed(self, token: str, output: Mapping[str, Any]) -> bool:
        """SendTaskSuccess; False if the token is spent or timed out."""
        ...


class DeadLetters(Protocol):
    """Events that on-fact failed to record, or that never reached it."""

    def take(self, limit: int) -> list[DeadLetter]:
        """Up to `limit` letters, which no other caller gets for a while; [] if there is none.

        A letter that is not forgotten comes again.
        """
        ...

    def forget(self, letter: DeadLetter) -> None:
        """Delete it; one that is gone already is fine."""
        ...


@dataclass(frozen=True)
class UnsentNotice:
    """A notice that is in the table; `key` is opaque, to be struck off by."""

    notice: Notice
    key: tuple[str, str]


class Notices(Protocol):
    """What people's own rules hear of. `Runs` and `Clusters` write it with what it tells."""

    def unsent(self, at_most: int) -> list[UnsentNotice]:
        """Oldest first, then a fourth as many of those that were put off.

        One that was written or sent just now may be missing or there again.
        """
        ...

    def send(self, event: UserEvent) -> None:
        """Put it on the bus and the topic.

        Raises errors.RetryableError; one or both may have taken it all the same.
        """
        ...

    def sent(self, unsent: UnsentNotice) -> None:
        """Strike it off; a repetition changes nothing."""
        ...

    def postpone(self, unsent: UnsentNotice, now: datetime) -> None:
        """It was refused: others come first. One that was struck off stays so."""
        ...

    def run_changed(self, run_id: str) -> None:
        """Wake those who show the run, now that another state of it is stored.

        It raises nothing and may be lost: who shows runs looks at them each minute anyway.
        """
        ...


class Secrets(Protocol):
    def ensure(self, name: str) -> str:
        """Create a random secret if there is none; returns its ARN."""
        ...

    def read(self, name: str, *, fresh: bool = False) -> str | None:
        """The secret, or None if there is none.

        It may be some minutes old, or seconds with `fresh`.
        """
        ...

    def write(self, name: str, value: str) -> None:
        """Make it if there is none, else replace what it holds."""
        ...

    def delete(self, name: str) -> None:
        """Delete if it is there."""
        ...


@dataclass(frozen=True)
class NodeRole:
    """A role that the nodes of one cluster act under.

    `policy` is all it may do, within `boundary`.
    """

    name: str
    path: str
    boundary: str
    trust: Mapping[str, Any]
    policy: Mapping[str, Any]
    tags: Mapping[str, str]


@dataclass(frozen=True)
class FoundRole:
    """A role that is there."""

    name: str
    path: str
    created_at: datetime


class Roles(Protocol):
    """Roles of nodes."""

    def ensure(self, role: NodeRole) -> None:
        """Make the role if it is not there, and give it its policy."""
        ...

    def delete(self, name: str, path: str) -> None:
        """Delete it if it is there; `path` is where it was made."""
        ...

    def below(self, path: str) -> builtins.list[FoundRole]: ...


@dataclass(frozen=True)
class NodePolicy:
    """A policy that the nodes of one cluster have, where the backend itself makes their roles."""

    arn: str
    name: str
    path: str
    document: Mapping[str, Any]
    tags: Mapping[str, str]


@dataclass(frozen=True)
class FoundPolicy:
    """A policy that is there."""

    arn: str
    path: str
    created_at: datetime


class Policies(Protocol):
    """Policies of nodes."""

    def ensure(self, policy: NodePolicy) -> None:
        """Make the policy if it is not there."""
        ...

    def delete(self, arn: str) -> None:
        """Delete it if it is there. Raises errors.RetryableError while a role has it."""
        ...

    def below(self, path: str) -> builtins.list[FoundPolicy]: ...


@dataclass(frozen=True)
class Remains:
    """What a backend made beside a cluster and keeps, whether the cluster is there or not."""

    backend: str
    name: str
    generation: int
    created_at: datetime


MetricUnit = Literal["Count", "Seconds"]


class Metrics(Protocol):
    """Figures for dashboards and alarms. A figure may be lost with the process that has it."""

    def put(self, name: str, value: float, unit: MetricUnit = "Count", **dimensions: str) -> None:
        """One figure of now. Never raises: nothing waits for a figure."""
        ...


class Prices(Protocol):
    def hourly_usd(self, spec: ClusterBase, product_of: Callable[[str], Product]) -> float | None:
        """On-demand price of the whole cluster per hour, or None if the price list does not say.

        `product_of` gives the product of an instance type; it is the backend's.
        """
        ...

    def monthly_usd(self, spec: FilesystemSpec) -> float | None:
        """Price of the filesystem for a month, or None if the price list does not say."""
        ...


@dataclass(frozen=True)
class Config:
    """What use cases must know of this deployment.

    `trainyard.wiring` fills it from the environment.
    """

    heartbeat_seconds: float
    secret_prefix: str
    orphan_seconds: float = 600.0
    #: Whether the stack names subnets and security groups for clusters whose spec names none.
    has_network: bool = False
    #: The stack's own bucket, of every cluster's runs.
    data_bucket: str = ""
    #: Where the stack is, and each of its clusters.
    region: str = ""
    #: Of clusters and filesystems whose spec names none.
    subnet_ids: tuple[str, ...] = ()
    security_group_ids: tuple[str, ...] = ()
    #: Who may what.
    roles: RolesOfPeople = field(default_factory=RolesOfPeople)
    #: Entries of the audit list are kept so long.
    audit_days: int = 400
    #: What needs an approval, and who gives it.
    approvals: ApprovalRules = field(default_factory=ApprovalRules)


@dataclass(frozen=True)
class Ports:
    """Everything a use case may reach; `backends` by the name in a cluster's spec.

    `trainyard.wiring.ports()` builds it once a process; tests build it of in-memory twins.
    """

    runs: Runs
    arrays: Arrays
    turns: Turns
    approvals: Approvals
    schedules: Schedules
    scheduler: Scheduler
    team_budgets: TeamBudgets
    webhooks: Webhooks
    receivers: Receivers
    clusters: Clusters
    filesystems: Filesystems
    audit: Audit
    lustre: Lustre
    networks: Networks
    waits: Waits
    backends: Mapping[str, Backend]
    blobs: Blobs
    uploads: Uploads
    sources: Sources
    exports: Exports
    directories: Directories
    executions: Executions
    dead_letters: DeadLetters
    notices: Notices
    secrets: Secrets
    prices: Prices
    metrics: Metrics
    clock: Clock
    ids: Ids
    config: Config

    def backend(self, thing: OfBackend) -> Backend:
        """The backend that it lives in."""
        return self.backends[thing.backend]

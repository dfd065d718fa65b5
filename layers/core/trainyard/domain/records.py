"""What the table stores: runs, clusters, facts, timeline entries; plain frozen data."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from trainyard.domain.archive_records import Archive
from trainyard.domain.states import NodeState
from trainyard_contracts import places
from trainyard_contracts.base import Lenient
from trainyard_contracts.cluster_specs import ClusterSpec
from trainyard_contracts.people import Person
from trainyard_contracts.sharing import SharingSpec
from trainyard_contracts.slurm_cluster import SlurmCluster
from trainyard_contracts.specs import RunSpec

RunStatus = Literal[
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
TERMINAL: frozenset[str] = frozenset({"Succeeded", "Failed", "Cancelled"})
ClusterStatus = Literal[
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
WaitKind = Literal["cluster", "outcome", "export", "teardown", "in-service", "deleted"]


class Record(Lenient):
    """What the table stores; a later version may have written it."""


class Problem(Record):
    """Why something ended badly: `code` is one of domain.problems, `next_step` is what to do."""

    code: str
    title: str
    detail: str
    next_step: str


class TimelineEntry(Record):
    """One line of a run's timeline: a fact, a decision with its reason, or a change of status."""

    id: str
    at: datetime
    kind: Literal["fact", "decision", "status"]
    type: str
    message: str
    attempt: int | None = None
    data: dict[str, Any] = Field(default_factory=dict)


class Action(Record):
    """What the run's machine must still do about nodes or the job; repeating it is harmless."""

    id: str
    kind: Literal["replace", "cancel-job", "exclude", "leave"]
    node: str = Field(default="", description="Slurm name of the node")
    instance_id: str = ""
    attempt: int | None = Field(
        default=None, description="of an exclude: the attempt whose job waits in Slurm's queue"
    )
    nodes: list[str] = Field(
        default_factory=list,
        description="of an exclude: all Slurm nodes that this job must not use",
    )
    reason: str = ""


class Attempt(Record):
    """One submission of the run's job; everything it writes is fenced by `number` (from 1)."""

    number: int
    generation: int = 1
    life: int = Field(default=1, description="Run.life it belongs to; budgets count within a life")
    fetching_since: datetime | None = Field(
        default=None, description="when its submission began to wait for the run's inputs"
    )
    submitted_at: datetime | None = None
    job_id: str | None = None
    nodes: list[str] = Field(default_factory=list)
    started_at: datetime | None = None
    first_step_at: datetime | None = None
    resumed_from: int | None = Field(
        default=None, description="step of the checkpoint that its program says it went on from"
    )
    began_with: str = Field(
        default="",
        description="the newest whole checkpoint that was there when its job began: 'step 40', or "
        "'copy 3' of one whose step is not known; '': none is known",
    )
    ended_at: datetime | None = None
    outcome: Literal["succeeded", "failed", "cancelled", "lost"] | None = None
    reason: str = ""
    wanting: bool = Field(
        default=False, description="AWS had no nodes for it: it is none of recovery.maxAttempts"
    )
    exclude: list[str] = Field(default_factory=list)
    down: list[str] = Field(default_factory=list)
    waited_since: datetime | None = Field(
        default=None, description="when the run began to wait for the node that it got then"
    )

    @property
    def waits(self) -> bool:
        """Submitted, and not started as far as is known."""
        return self.submitted_at is not None and self.started_at is None and self.ended_at is None


class Incident(Record):
    """From the first bad fact to the first training step after it.

    Where a program tells no step, it lasts until the program started again and lived.
    """

    cause: str
    attempt: int
    life: int = 1
    fact_id: str
    started_at: datetime
    actions: list[str] = Field(default_factory=list)
    reason: str = ""
    error_signature: str | None = Field(
        default=None, description="error text and step, to recognise the same error again"
    )
    node: str | None = None
    resumed_at: datetime | None = None
    resumed_by: Literal["step", "start"] = Field(
        default="step",
        description="start: its program tells no step, so resumed_at is when the program started "
        "again, and no time of a recovery",
    )


class Export(Record):
    """One export of the run; only `verified` permits deleting the cluster."""

    id: str
    state: Literal["requested", "running", "failed", "verified"] = "requested"
    final: bool = Field(
        default=False, description="made after training ended, so it holds everything that is whole"
    )
    requested_at: datetime
    tries: int = 1
    reason: str = ""
    objects: int = 0
    bytes: int = 0
    manifest_key: str = ""
    left_behind: str = Field(
        default="",
        description="what of the program's only the cluster holds, though every object is verified",
    )
    found_nothing: bool = Field(
        default=False,
        description="neither checkpoint nor model nor file of the program's: only logs",
    )


class Checkpoint(Record):
    """A checkpoint that was committed, and what is known of it now."""

    step: int
    attempt: int
    path: str
    bytes: int
    files: int
    committed_at: datetime
    status: Literal["whole", "rejected", "pruned"] = Field(
        default="whole",
        description=(
            "whole: every hash verified; rejected: it does not verify; pruned: "
            "removed, newer ones are kept, or lost with its filesystem"
        ),
    )
    reason: str = ""
    counted: bool = Field(
        default=False, description="'step' is no step of the training: it counts the copies"
    )


class Code(Record):
    """An uploaded directory: the run's working directory, or data that it reads."""

    tree: str = Field(
        description="the id of the upload, as job.workdir names it; of job.git: made of its commit"
    )
    files: int
    bytes: int = Field(description="of the files")
    commit: str = Field(default="", description="of job.git")
    url: str = Field(default="", description="of job.git")
    ref: str = Field(default="", description="of job.git: what was asked for")
    kept: bool = Field(default=False, description="the run has its own copy, which does not expire")


class Start(Record):
    """The checkpoint of another run that this run begins with."""

    run_id: str
    path: str = Field(description="relative to that run's directory on the shared filesystem")
    step: int
    export: str = Field(
        default="", description="where its files lie in S3, if the run's nodes can read them there"
    )


class CostLine(Record):
    """What a cause took of the nodes' time, and what that cost."""

    cause: str
    seconds: float
    node_seconds: float
    usd: float | None = None


class RunCost(Record):
    """What a run cost up to a moment, divided by what its nodes did."""

    usd: float | None = Field(default=None, description="null: a price was not known")
    reason: str = Field(default="", description="why usd is null")
    at: datetime = Field(description="the moment up to which it is counted")
    node_seconds: float = 0
    ledger: list[CostLine] = Field(default_factory=list)


class Asked(Record):
    """The approval that a life of a run waits for, as it was asked for when that life began."""

    id: str = Field(description="of the approval")
    because: str = Field(description="why it is needed, as a sentence")
    usd: float | None = Field(
        default=None, description="what the life may cost at most; null: the price is not known"
    )
    needed: int = Field(default=1, description="so many people have to approve it")
    expires_at: datetime
    argument_hash: str = Field(description="of what is approved: the run's spec")
    requester: Person | None = Field(
        default=None, description="who asked for this life; null: the run's owner"
    )


class ArrayMember(Record):
    """Which member of which array a run is."""

    id: str = Field(description="of the array")
    index: int = Field(description="from 0")


class Run(Record):
    """A run. Written by the run's state machine only, with optimistic locking on `version`."""

    id: str
    name: str
    spec: RunSpec
    labels: dict[str, str] = Field(
        default_factory=dict, description="as people changed them since; the spec has the first"
    )
    status: RunStatus = "Pending"
    generation: int = Field(
        default=1, description="of the state machine's execution; a restart adds one"
    )
    life: int = Field(
        default=1, description="a resume of an ended run begins a new life with new budgets"
    )
    version: int = 0
    created_at: datetime
    created_by: Person | None = Field(
        default=None, description="whose it is; null: an older version did not keep it"
    )
    shared_with: list[str] = Field(
        default_factory=list, description="patterns of ARNs of others who may change it"
    )
    cancelled_by: Person | None = Field(default=None, description="of this life")
    priority: int = Field(
        default=0, description="as people changed it since; the spec has the first"
    )
    turn_waits_since: datetime | None = Field(
        default=None, description="when it began to wait for its turn on a shared cluster"
    )
    updated_at: datetime
    opened_at: datetime | None = Field(default=None, description="when this life began")
    finished_at: datetime | None = None
    warnings: list[str] = Field(
        default_factory=list, description="what could surprise who submitted it, said at submission"
    )
    cluster_name: str
    owns_cluster: bool = False
    filesystem: str = Field(
        default="",
        description=(
            "what the run's last attempt wrote lies on this filesystem: its DNS name and mount name"
        ),
    )
    objects_prefix: str = Field(
        default="", description="where its objects lie in the data bucket; runs/<id> of older runs"
    )
    code: Code | None = Field(default=None, description="of a run with job.workdir or job.git")
    image_digest: str = Field(
        default="", description="of job.image, once the first attempt found it: all have the same"
    )
    start_from: Start | None = Field(default=None, description="of a run with checkpoint.startFrom")
    data: dict[str, Code] = Field(
        default_factory=dict, description="uploaded data among its inputs, by the name in the spec"
    )
    array: ArrayMember | None = Field(default=None, description="of a run that an array made")
    schedule: str = Field(default="", description="the name of the schedule that submitted it")
    after_met_at: datetime | None = Field(
        default=None, description="when all runs of spec.after had ended, so that it could begin"
    )
    approval: Asked | None = Field(default=None, description="of this life; null: it needs none")
    approval_met_at: datetime | None = Field(
        default=None, description="when the run went on with its approval, in this life"
    )
    outputs_at: dict[str, str] = Field(
        default_factory=dict,
        description="where its nodes read the outputs of other runs, by the source in its inputs",
    )
    hourly_usd: float | None = Field(
        default=None,
        description="of a run with a budget: what an hour of it cost when it was submitted, in "
        "its dearest way",
    )
    cost: RunCost | None = Field(default=None, description="of all lives; set at a life's end")
    cluster_generation: int | None = Field(
        default=None, description="generation of its own cluster that this life uses"
    )
    attempts: list[Attempt] = Field(default_factory=list)
    former_nodes: list[str] = Field(
        default_factory=list,
        description="nodes of attempts that keep no list of their own any more",
    )
    incidents: list[Incident] = Field(default_factory=list)
    excluded_nodes: list[str] = Field(default_factory=list)
    outcome: Literal["succeeded", "failed", "cancelled"] | None = Field(
        default=None,
        description="set when training is over; export and teardown may still be under way",
    )
    reason: str = Field(
        default="", description="why the run is where it is, in words a person understands"
    )
    problem: Problem | None = None
    export: Export | None = None
    teardown_refused: str = Field(
        default="", description="why its own cluster was kept although the policy says to delete it"
    )
    cluster_deleted: bool = False
    directory_deleted_at: datetime | None = Field(
        default=None,
        description="when its directory in S3 was deleted, as its verified export has everything; "
        "null if it was not, or the run's nodes share a filesystem",
    )
    waiting_since: datetime | None = Field(
        default=None, description="when the run began to wait for a node"
    )
    stopping_since: datetime | None = Field(
        default=None, description="when training was told to stop"
    )
    actions: list[Action] = Field(default_factory=list, description="decided, not done yet")
    handled_facts: list[str] = Field(
        default_factory=list, description="facts without an attempt that were acted on once"
    )
    troubles: int = Field(
        default=0, description="steps of the machine that failed for good in this life"
    )
    last_trouble: str = Field(
        default="", description="the newest of them, so that none is counted twice"
    )

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def tells_steps(self) -> bool:
        """Whether any attempt made a step as far as is known."""
        return any(attempt.first_step_at is not None for attempt in self.attempts)

    @property
    def prefix(self) -> str:
        """Its objects in the data bucket lie below this."""
        return self.objects_prefix or self._former_prefix

    @property
    def export_prefix(self) -> str:
        return places.export_prefix(self.prefix)

    @property
    def export_manifest_key(self) -> str:
        return f"{self.export_prefix}{places.EXPORT_MANIFEST}"

    @property
    def sync_prefix(self) -> str:
        """Where what is copied while it trains lies, without a slash at its end."""
        return places.sync_prefix(self.cluster_name, self.id)

    def bundle_key(self, attempt: int) -> str:
        return places.bundle_key(self.prefix, attempt)

    def log_keys(self, attempt: int) -> list[str]:
        """Where the run's log may be.

        A run of an older version may have it where that version put it.
        """
        prefixes = dict.fromkeys((self.prefix, self._former_prefix))
        return [places.log_key(prefix, attempt) for prefix in prefixes]

    @property
    def _former_prefix(self) -> str:
        return places.run_prefix(places.FORMER_RUNS_PREFIX, self.id)

    @property
    def terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def waits_for_runs(self) -> bool:
        """It has not begun, as far as the runs of `after` are concerned."""
        return bool(self.spec.after) and self.after_met_at is None

    @property
    def waits_for_approval(self) -> bool:
        """It may not begin this life yet, as far as people are concerned."""
        return self.approval is not None and self.approval_met_at is None


class CapacityTry(Record):
    """One way in which a cluster was tried; the newest one's result is the cluster itself."""

    number: int = Field(description="from 1; after the last way the first one comes again")
    way: str = Field(description="such as 'ml.p5.48xlarge, spot'")
    hourly_usd: float | None = Field(
        default=None, description="of all its nodes; null where the price list does not say"
    )
    began_at: datetime = Field(description="or begins, where it waits for the next round")
    ended_at: datetime | None = None
    reason: str = Field(default="", description="why it ended, in AWS's words")


ChangeState = Literal[
    "waiting", "begun", "stopping", "sending", "changing", "starting",
    "done", "refused", "rolled-back", "failed", "withdrawn",
]  # fmt: skip
#: After these nothing more is done.
CHANGE_ENDS: frozenset[str] = frozenset({"done", "refused", "rolled-back", "failed", "withdrawn"})


class ClusterChange(Record):
    """What becomes of a cluster that is there: another spec, or its fleet stopped or started.

    The sweep alone takes it from state to state.
    """

    state: ChangeState = "waiting"
    spec: ClusterSpec | None = Field(
        default=None, description="what is wanted; null: only the fleet is stopped or started"
    )
    fleet: Literal["running", "stopped"] = Field(
        default="running", description="what becomes of the fleet in the end"
    )
    was: Literal["Ready", "Stopped"] = Field(
        default="Ready", description="the cluster's status before"
    )
    asked_at: datetime
    ended_at: datetime | None = None
    forced: bool = Field(default=False, description="a person gave up people's jobs")
    stops_fleet: bool = Field(
        default=False, description="the change needs a fleet that is stopped meanwhile"
    )
    sent_at: datetime | None = Field(
        default=None, description="when the backend was first asked for it, before the call"
    )
    before: str = Field(
        default="", description="the backend's word for when the cluster changed last, before this"
    )
    outcome: ChangeState | None = Field(
        default=None, description="known while the fleet is started again"
    )
    reason: str = Field(default="", description="what it waits for, or why it ended so")
    asked_by: Person | None = None

    @property
    def over(self) -> bool:
        return self.state in CHANGE_ENDS


class AdoptedNode(Record):
    """How far the agent is on one node of an adopted cluster.

    It is stored before the node is touched, so that a release knows of every node that may have
    anything of ours.
    """

    group: str
    state: Literal["asked", "installing", "installed", "failed"] = "asked"
    at: datetime = Field(description="when the node was last asked")
    tries: int = Field(default=0, description="how many of them failed, one after the other")
    reason: str = Field(default="", description="why the newest one failed, or could not be undone")


class Adoption(Record):
    """Of a cluster that others made. It is never deleted by us, only released."""

    replace_nodes: bool = Field(description="its nodes may be replaced and rebooted by us")
    nodes: dict[str, AdoptedNode] = Field(
        default_factory=dict, description="by instance id: those that may have anything of ours"
    )
    lacking: int | None = Field(
        default=None, description="nodes that run and still wait for the agent; null: not known yet"
    )
    left: list[str] = Field(
        default_factory=list, description="what a release had to leave behind, in sentences"
    )


class Cluster(Record):
    """A cluster we made (or are making). Only the cluster and teardown state machines write it."""

    name: str
    spec: ClusterSpec
    labels: dict[str, str] = Field(
        default_factory=dict, description="as people changed them since; the spec has the first"
    )
    status: ClusterStatus = "Pending"
    generation: int = 1
    version: int = 0
    created_at: datetime
    created_by: Person | None = Field(
        default=None,
        description="whose it is; null: an older version did not keep it. A run's own cluster is "
        "that of the run's owner, whatever is here",
    )
    shared_with: list[str] = Field(
        default_factory=list, description="patterns of ARNs of others who may change it"
    )
    updated_at: datetime
    arn: str | None = None
    owner_run: str | None = Field(
        default=None, description="the run it was made for; None = stands on its own"
    )
    ready_at: datetime | None = None
    last_used_at: datetime | None = None
    last_heartbeat_at: datetime | None = None
    create_requested: bool = False
    asked: ClusterSpec | None = Field(
        default=None,
        description="what was asked for, where spec is one of the ways that it names, or a person "
        "has updated it since",
    )
    otherwise: list[ClusterSpec] = Field(
        default_factory=list, description="whole specs that are tried after all ways of asked"
    )
    bound: bool = Field(
        default=False,
        description="only ways of this backend are tried: others lack what was trained",
    )
    tries: list[CapacityTry] = Field(default_factory=list)
    try_until: datetime | None = Field(
        default=None, description="no way is tried any more, and none lasts longer"
    )
    not_before: datetime | None = Field(
        default=None, description="it is not created earlier: AWS had no capacity in any way"
    )
    given_up: bool = Field(default=False, description="nobody wants another try")
    warnings: list[str] = Field(
        default_factory=list, description="what could surprise who asked for it, said then"
    )
    signs_events: bool = Field(
        default=False, description="its agents sign what they report; older ones do not"
    )
    delete_requested_at: datetime | None = None
    delete_asked: bool = Field(
        default=False,
        description="its deletion was asked for while the machine of an earlier one still ran",
    )
    delete_forced: bool = Field(
        default=False, description="a person gave up what only it holds, and people's jobs on it"
    )
    deleted_by: Person | None = Field(default=None, description="who asked for its deletion")
    sharing: SharingSpec | None = Field(
        default=None, description="as people changed it since; null: as the spec has it"
    )
    archive: Archive | None = Field(
        default=None, description="of its own filesystem, where the spec names an archive"
    )
    adoption: Adoption | None = Field(
        default=None, description="of a cluster that others made; null: we made it"
    )
    machine_tries: int = Field(
        default=0, description="restarts of its state machines; part of their execution names"
    )
    problem: Problem | None = None
    change: ClusterChange | None = Field(default=None, description="the newest one")
    idempotency_key: str | None = Field(default=None, description="of the request that made it")

    @property
    def backend(self) -> str:
        """The name of the backend that it lives in."""
        return self.spec.backend

    @property
    def id(self) -> str | None:
        """Last segment of the ARN, the id Session Manager targets use."""
        return self.arn.rsplit("/", 1)[-1] if self.arn else None

    @property
    def idle_since(self) -> datetime:
        """When its idle time began, if nobody uses it now."""
        moments = (self.last_used_at, self.ready_at, self.created_at)
        return max(moment for moment in moments if moment is not None)

    @property
    def shared_by(self) -> SharingSpec:
        """Who has a turn when."""
        if self.sharing is not None:
            return self.sharing
        return self.spec.sharing if isinstance(self.spec, SlurmCluster) else SharingSpec()

    @property
    def filesystem(self) -> str:
        """The shared filesystem that its nodes mount; one made with it is this generation's."""
        return self.spec.filesystem or f"{self.name}/{self.generation}"

    @property
    def mark(self) -> str:
        """The value of RECORD_TAG: the record's generation and the moment at which it was made."""
        return mark_of(self.generation, self.created_at)

    @property
    def restoring(self) -> bool:
        """What its archive holds is not listed yet, as far as is known."""
        return bool(self.spec.archive) and (
            self.archive is None or self.archive.restored_at is None
        )

    @property
    def unarchived(self) -> bool:
        """Its own filesystem may hold what its archive does not."""
        if not self.spec.archive or self.ready_at is None or self.delete_forced:
            return False
        return not self._archived

    @property
    def lost_archive(self) -> bool:
        """Its own filesystem is gone, or goes, and its archive may lack what that held."""
        if not self.spec.archive or self.ready_at is None or self._archived:
            return False
        return self.status == "Deleted" or (self.status == "Deleting" and self.delete_forced)

    @property
    def went_unarchived(self) -> bool:
        """What its runs left went with its own filesystem, and the archive may lack it."""
        return self.filesystem == self.spec.archive and self.lost_archive

    @property
    def _archived(self) -> bool:
        export = self.archive.export if self.archive is not None else None
        return export is not None and export.state == "verified"

    @property
    def possible_specs(self) -> list[ClusterSpec]:
        """What it is, and what a later try may make of it."""
        if not self.tries or self.given_up:
            return [self.spec]
        return [self.spec, *([self.asked] if self.asked else []), *self.otherwise]

    @property
    def status_if_kept(self) -> ClusterStatus:
        """What it is again if its deletion is given up: as its newest change left or has it."""
        change = self.change
        if change is None:
            return "Ready"
        if not change.over and change.state != "waiting":
            return "Updating"
        if change.state in ("waiting", "refused", "withdrawn"):
            return change.was
        return "Stopped" if change.fleet == "stopped" else "Ready"

    def tags(self, stage: str) -> dict[str, str]:
        """Of all that a backend makes for it: the user's, and those by which we know ours."""
        ours = {
            places.STAGE_TAG: stage,
            places.CLUSTER_TAG: self.name,
            places.RECORD_TAG: self.mark,
        }
        run = {places.RUN_TAG: self.owner_run} if self.owner_run else {}
        return {**self.spec.tags, **ours, **run}

    def is_marked(self, tags: Mapping[str, str]) -> bool:
        """Whether these tags are of the very cluster that was asked for with this record."""
        return tags.get(places.RECORD_TAG) == self.mark


def mark_of(generation: int, created_at: datetime) -> str:
    """The `mark` of a cluster's record."""
    return f"{generation}/{created_at.isoformat()}"


class ClusterNode(Record):
    """A node as the API shows it: backend state, Slurm state and the newest sample joined."""

    instance_id: str
    group: str
    role: Literal["controller", "worker", "login"]
    instance_type: str
    status: NodeState
    message: str = ""
    name: str | None = Field(default=None, description="Slurm node name ip-a-b-c-d")
    address: str | None = None
    launched_at: datetime | None = None
    agent: str = "unknown"
    scheduler: str = "unknown"
    sample: dict[str, Any] | None = None


class Wait(Record):
    """A state machine's task token that waits for a fact.

    `owner` is 'run:<id>', 'cluster:<name>' or 'teardown:<name>'.
    """

    owner: str
    kind: WaitKind
    token: str
    since: datetime
    woken_at: datetime | None = None

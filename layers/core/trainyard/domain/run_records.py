"""A run."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard.domain.attempt_records import Action, Attempt
from trainyard.domain.cost_records import RunCost
from trainyard.domain.incident_records import Incident
from trainyard.domain.origin_records import ArrayMember, Asked, Code, Start
from trainyard.domain.output_records import Export
from trainyard.domain.record import Problem, Record
from trainyard_contracts import places
from trainyard_contracts.people import Person
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

"""The agents' events on the bus, one class for each detail-type."""

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, Union

from pydantic import AwareDatetime, BaseModel, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError
from typing_extensions import Self

from .base import Lenient

SOURCE = "trainyard.agent"
# A value may be of the right type and still be one that nobody can store: `mistakes`. What is
# stored already is read without these bounds.
#: A time in another year is none: a clock that was never set says 1970.
YEARS = range(1900, 3000)
LARGEST_NUMBER = 2**63
#: Longer than the id of any run, and shorter than the longest key of the table.
LONGEST_ID = 256

Place = tuple[Union[str, int], ...]


class Fact(Lenient):
    """Something that happened at `at`, recorded once by its `id` and never changed."""

    id: str
    at: AwareDatetime


class AgentEvent(Fact):
    """Fields of every agent event.

    `id` is a ULID that the node makes once: the fact's identity however often it is delivered.
    """

    id: str = Field(pattern=r"^[0-9A-HJKMNP-TV-Z]{26}$")
    cluster_name: str = Field(min_length=1, max_length=63)
    cluster_arn: str
    node: str = Field(default="", description="Slurm name of the node that reports")
    reported_at: AwareDatetime | None = Field(
        default=None,
        description=(
            "set by whoever records it where the node's clock was wrong: "
            "the time that the node gave"
        ),
    )
    signature: str = Field(
        default="",
        exclude=True,
        description=(
            "signatures.signature of the whole event, by the cluster's key; added when it is sent"
        ),
    )

    def moved(self, shift: timedelta) -> Self:
        """The event as if it had happened so much later: every time in it moves along."""
        return self.changed(at=self.at + shift, reported_at=self.at)


class RunEvent(AgentEvent):
    """An event about one run's attempt."""

    run_id: str
    attempt: int = Field(ge=1)


class MeetingEvent(AgentEvent):
    """An event of a node or a whole cluster; it may name the run's attempt that it met there."""

    run_id: str | None = None
    attempt: int | None = None


class ClusterReady(AgentEvent):
    """As many workers as jobs may use joined Slurm, their agents linked; spares may follow."""

    nodes: list[str]


class JobAhead(Lenient):
    """Another job that an attempt waits for: it holds nodes, or is ahead in Slurm's queue."""

    job_id: str
    user: str
    nodes: list[str] = Field(
        default_factory=list, description="Slurm nodes that it holds; none while it waits, too"
    )


class AttemptQueued(RunEvent):
    """The attempt's job waits in Slurm's queue; at most once a minute while jobs are ahead."""

    job_id: str
    reason: str = Field(
        default="", description="Slurm's own word: Resources, Priority, ReqNodeNotAvail, ..."
    )
    ahead: list[JobAhead] = Field(
        default_factory=list, description="20 at most, those that hold nodes first"
    )


class AttemptStarted(RunEvent):
    """The scheduler started the attempt's job on these Slurm nodes."""

    job_id: str
    nodes: list[str]
    waits_for: list[str] = Field(
        default_factory=list,
        description="those of them that are still being set up, for which the job waits",
    )


class AttemptStepped(RunEvent):
    """The attempt finished its first training step."""

    step: int
    resumed_from: int | None = None
    stepped_at: AwareDatetime
    source: str = Field(
        default="program",
        description="who said so: the program itself, its log, or TensorBoard's or MLflow's files",
    )

    def moved(self, shift: timedelta) -> Self:
        return super().moved(shift).changed(stepped_at=self.stepped_at + shift)


class CheckpointCommitted(RunEvent):
    """A checkpoint was committed and every hash in its manifest verified by the agent."""

    step: int
    path: str = Field(description="relative to the run's directory")
    bytes: int
    files: int
    committed_at: AwareDatetime
    source: str = Field(
        default="",
        description="of a copy: the program's own file or directory, relative to the run's",
    )
    counted: bool = Field(
        default=False, description="the step is not known: it counts the copies of this name"
    )

    def moved(self, shift: timedelta) -> Self:
        return super().moved(shift).changed(committed_at=self.committed_at + shift)


class CheckpointRejected(RunEvent):
    """A checkpoint does not verify; it will not be resumed from."""

    step: int
    path: str
    reason: str
    counted: bool = Field(
        default=False, description="the step is not known: it counts the copies of this name"
    )


class CheckpointPruned(RunEvent):
    """A whole checkpoint was removed to make room; newer ones are there."""

    step: int
    path: str


class CheckpointRestored(RunEvent):
    """Before the attempt was submitted, a program's own checkpoint was put back or set aside."""

    source: str = Field(description="the program's file or directory, relative to the run's")
    path: str = Field(default="", description="of the copy that was put back; '' = there was none")
    step: int | None = Field(default=None, description="of that copy")
    counted: bool = Field(
        default=False, description="the step is not known: it counts the copies of this name"
    )
    reason: str = Field(description="what was wrong with the program's own")
    set_aside: str = Field(default="", description="where the program's own is now")


class WatchWarned(RunEvent):
    """A program's checkpoints are not kept safe as the spec asks; once for each reason."""

    reason: str


class CodeFetched(RunEvent):
    """The commit of `job.git` was fetched by the run's own job, and every attempt has its files."""

    commit: str
    url: str
    ref: str
    files: int = Field(ge=0)
    submodules: int = Field(default=0, ge=0, description="which are not fetched")


class ResultsSynced(RunEvent):
    """What the run has so far is in S3: for the first time, or again after a failure was told."""

    every_seconds: float
    objects: int
    bytes: int
    last_step: int | None = None
    left_out: int = Field(default=0, description="files of the program's that are not copied")


class SyncFailed(RunEvent):
    """What the run makes is not copied to S3 just now. Training goes on; it is tried again."""

    trouble: Literal["denied", "unreachable", "disk", "slow", "not-deleted", "other"]
    reason: str
    behind_seconds: float | None = Field(
        default=None, description="since the last copy; None: there is none yet"
    )


class RunRestored(RunEvent):
    """Before the attempt was submitted, what was in S3 was brought to an empty filesystem."""

    source: Literal["sync", "export"]
    age_seconds: float = Field(description="of what was brought")
    step: int | None = Field(default=None, description="of the newest checkpoint that is whole")
    checkpoints: int = 0
    brought: list[str] | None = Field(
        default=None,
        description="paths of the checkpoints that are there now, relative to the run's "
        "directory: the others are gone; null: not said",
    )
    files: int = Field(default=0, description="of the program's")
    bytes: int = 0
    seconds: float = 0
    skipped: list[str] = Field(
        default_factory=list, description="what could not be brought, and why; 20 at most"
    )


class NodeEvidence(Lenient):
    """What the controller's agent knew of a node when it reported: two independent signals."""

    node: str
    instance_id: str = ""
    agent: Literal["linked", "silent", "unknown"]
    scheduler: Literal["up", "down", "unknown"]
    detail: str = ""


class AttemptEnded(RunEvent):
    """The attempt's job left the scheduler, for whatever reason."""

    job_id: str
    outcome: Literal["succeeded", "failed", "cancelled"]
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = Field(
        default=None, description="last line of the Python traceback, e.g. 'ValueError: bad batch'"
    )
    error_kind: (
        Literal["python-error", "signal", "out-of-memory", "node", "checkpoint", "unknown"] | None
    ) = None
    exception: str | None = Field(
        default=None, description="class of the program's error, e.g. 'ModuleNotFoundError'"
    )
    lasting: bool = Field(
        default=False,
        description="the error is in the program, its arguments or what all nodes lack: another "
        "attempt would meet it again",
    )
    memory: Literal["host", "device"] | None = Field(
        default=None, description="which ran out, if error_kind is out-of-memory and it is known"
    )
    traceback: str = Field(
        default="", description="of the process that failed first, the program's own frames only"
    )
    remark: str = Field(default="", description="what a person should know of a good end")
    failed_node: str | None = Field(
        default=None, description="Slurm node where the first process failed"
    )
    last_step: int | None = None
    last_loss: float | None = Field(default=None, description="that of the last step")
    step_source: str = Field(
        default="program",
        description="who said the last step; one that was read elsewhere may be older than the end",
    )
    never_ran: bool = Field(
        default=False,
        description="nothing of the job was started on any node: no launcher, and no log",
    )
    nodes: list[NodeEvidence] = Field(default_factory=list)
    log_tail: str = ""


class NodeEvent(AgentEvent):
    """An event about one node. `node` is who reports, as in every agent event: the controller."""

    about: NodeEvidence

    #: Where older agents and stored facts have the evidence, and where the node's name alone.
    older_evidence: ClassVar[str] = ""
    older_name: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "about" in given:
            return given
        if isinstance(evidence := given.get(cls.older_evidence), dict):
            return {**given, "about": evidence}
        if isinstance(name := given.get(cls.older_name), str):
            known = {"instanceId": given.get("instanceId", ""), "agent": "linked"}
            return {**given, "about": {"node": name, "scheduler": "unknown", **known}}
        return given


class NodeLost(MeetingEvent, NodeEvent):
    """A worker is lost: its agent is silent AND the scheduler (or the training) says so too.

    Or EC2 takes its spot instance back, and the job leaves it while it still answers.
    """

    taken_back_at: AwareDatetime | None = Field(
        default=None, description="when EC2 ends the spot instance; null: it is lost already"
    )

    older_evidence = "lost"

    def moved(self, shift: timedelta) -> Self:
        moved = super().moved(shift)
        at = self.taken_back_at
        return moved.changed(taken_back_at=at + shift) if at is not None else moved


class NodeReturned(NodeEvent):
    """A node that was lost or drained serves jobs again."""

    older_name = "returned"


class NodesChanged(AgentEvent):
    """Slurm's list of nodes has changed: some were added, removed, or replaced by new names."""

    nodes: list[str] = Field(description="every node that Slurm knows now")
    added: list[str] = Field(default_factory=list)
    removed: list[str] = Field(default_factory=list)
    partitions: dict[str, int] = Field(
        default_factory=dict, description="how many of them each partition has"
    )


class AgentSilent(MeetingEvent, NodeEvent):
    """A node's agent is silent, but its scheduler daemon or training go on: nothing is done."""

    older_evidence = "silent"


class AgentBack(NodeEvent):
    """A silent agent reports again."""

    older_name = "back"


class NodeUnhealthy(MeetingEvent):
    """A check's verdict, after debouncing."""

    check: str
    severity: Literal["warning", "error", "healthy"]
    detail: str


class ExportFinished(AgentEvent):
    """An export ended; with ok=False nothing was deleted and `reason` says what failed."""

    run_id: str
    export_id: str
    ok: bool
    reason: str = ""
    objects: int = 0
    bytes: int = 0
    manifest_key: str = ""
    manifest_sha256: str = Field(
        default="",
        description="of the manifest as it was written, so that one that was replaced is noticed",
    )


class Gpu(Lenient):
    """One accelerator's sample."""

    index: int
    kind: Literal["nvidia", "neuron"]
    utilization_percent: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None


class NodeSample(Lenient):
    """One node's newest sample. Rates are per second over the sampling interval."""

    node: str
    instance_id: str
    role: str
    agent: Literal["linked", "silent", "unknown"] = "linked"
    scheduler: str = Field(default="unknown", description="Slurm's state of the node, lower case")
    at: AwareDatetime
    cpu_percent: float = Field(default=0, description="of all cores, 0 to 100")
    memory_used_bytes: int = 0
    memory_total_bytes: int = 0
    disk_used_percent: float = 0
    network_received_bytes_per_second: float = 0
    network_sent_bytes_per_second: float = 0
    gpus: list[Gpu] = Field(default_factory=list)


class RunSample(Lenient):
    """The newest step of a run's training."""

    run_id: str
    attempt: int
    job_state: str = ""
    pending_reason: str = Field(
        default="", description="why Slurm lets the job wait, in its own word; '' once it runs"
    )
    step: int | None = None
    loss: float | None = None


class OtherJobs(Lenient):
    """Jobs in Slurm's queue that are not Trainyard's: people's.

    Those that wait for a person (held) are left out.
    """

    running: int = Field(default=0, ge=0)
    queued: int = Field(default=0, ge=0)
    users: list[str] = Field(
        default_factory=list, max_length=100, description="some of their names"
    )


#: PutEvents takes 256 KB a request, names included; room is left for what is added on the way.
MOST_EVENT_BYTES = 200 * 1024


class ClusterHeartbeat(AgentEvent):
    """The controller agent's periodic report: latest samples of nodes, and every active run's step.

    A large cluster's samples come in several heartbeats of at most MOST_EVENT_BYTES, one right
    after the other.
    """

    nodes: list[NodeSample]
    runs: list[RunSample] = Field(default_factory=list)
    dropped_samples: int = 0
    part: int = Field(
        default=1, ge=1, description="which of the heartbeats of one look at the cluster this is"
    )
    parts: int = Field(default=1, ge=1, description="how many heartbeats hold that look")
    other_jobs: OtherJobs | None = Field(default=None, description="None: not known")


AGENT_EVENTS: dict[str, type[AgentEvent]] = {
    cls.__name__: cls
    for cls in (
        ClusterReady, AttemptQueued, AttemptStarted, AttemptStepped, CheckpointCommitted,
        CheckpointRejected, CheckpointPruned, CheckpointRestored, WatchWarned,
        CodeFetched, ResultsSynced, SyncFailed, RunRestored, AttemptEnded,
        NodeLost, NodeReturned, NodesChanged, AgentSilent, AgentBack, NodeUnhealthy,
        ExportFinished, ClusterHeartbeat,
    )
}  # fmt: skip


def parse_agent_event(detail_type: str, detail: dict[str, Any]) -> AgentEvent:
    """Parse an agent event by its detail-type.

    Raises KeyError for an unknown detail-type and pydantic.ValidationError for a malformed detail,
    also for one that is of the right types and cannot be stored.
    """
    event = AGENT_EVENTS[detail_type].model_validate(detail)
    if found := mistakes(event):
        raise ValidationError.from_exception_data(detail_type, found)
    return event


def mistakes(told: BaseModel) -> list[InitErrorDetails]:
    """Each text, number and time in it that cannot be stored, calculated with or sent on."""
    kind = PydanticCustomError("unstorable", "cannot be stored")
    return [
        InitErrorDetails(type=kind, loc=place, input=value)
        for place, value in _leaves(told, ())
        if not _storable(place, value)
    ]


def _leaves(value: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    if isinstance(value, BaseModel):
        for name, inner in value:
            yield from _leaves(inner, (*place, type(value).model_fields[name].alias or name))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _leaves(inner, (*place, position))
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield place, name
            yield from _leaves(inner, (*place, name))
    else:
        yield place, value


def _storable(place: Place, value: Any) -> bool:
    if isinstance(value, str):
        whole = not any("\ud800" <= character <= "\udfff" for character in value)
        return whole and (place != ("runId",) or len(value) <= LONGEST_ID)
    if isinstance(value, datetime):
        return value.year in YEARS
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) < LARGEST_NUMBER

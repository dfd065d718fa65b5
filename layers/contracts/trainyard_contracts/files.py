"""Files that one process writes and another reads: manifests, progress, bundle, configuration."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from . import places
from .base import Lenient, Sha256Hex
from .cluster_parts import ClusterUser, PythonEnvironment, S3Mount, SharedFilesystem
from .specs import JobPythonEnvironment
from .watching import ProgressSetting, WatchSpec

#: The year 3000: a number beyond it is no time.
LATEST = 32503680000


class ManifestFile(Lenient):
    """One file of a checkpoint; `path` is relative to the checkpoint's directory."""

    path: str
    bytes: int = Field(ge=0)
    sha256: Sha256Hex
    crc32: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{8}$",
        description="what a trainer checks before it loads; sha256 is what lasts",
    )


class WatchedSource(Lenient):
    """The program's own checkpoint of which the agent made this copy."""

    path: str = Field(description="of its file or directory, relative to the run's directory")
    signature: str = Field(description="of its files' names, sizes and times")
    modified_ns: int = Field(description="its newest file's time, in ns since the epoch")
    directory: bool = Field(default=False, description="it is a directory, and no single file")
    counted: bool = Field(
        default=False, description="its step is not known: 'step' counts the copies"
    )
    linked: bool = Field(default=False, description="the copy shares the program's blocks on disk")


class CheckpointManifest(Lenient):
    """Written last into a checkpoint's directory; without a valid one there is no checkpoint."""

    schema_name: Literal["trainyard.checkpoint.v1"] = Field(
        default="trainyard.checkpoint.v1", alias="schema"
    )
    run_id: str
    attempt: int = Field(ge=1)
    step: int = Field(ge=0)
    world_size: int = Field(ge=1)
    created_at: datetime
    files: list[ManifestFile] = Field(min_length=1)
    crc32: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{8}$",
        description="of the manifest without it, its keys sorted",
    )
    watched: WatchedSource | None = Field(
        default=None, description="of a copy of what a program wrote in its own way"
    )


class Progress(Lenient):
    """The last finished step; rank 0 replaces its attempt's `progress.json` atomically."""

    step: int = Field(ge=0, le=10**12)
    loss: float | None = None
    at: float = Field(ge=0, lt=LATEST, description="seconds since the epoch")
    resumed_from: int | None = Field(
        default=None,
        ge=0,
        le=10**12,
        description="step of the checkpoint this attempt started from; None = fresh",
    )
    first_step_at: float | None = Field(
        default=None, ge=0, lt=LATEST, description="when this attempt finished its first step"
    )
    world_size: int = Field(default=1, ge=1)
    source: Literal["program", "log", "tensorboard", "mlflow", "wandb"] = Field(
        default="program",
        description="who says so: the program itself, or what else it writes; then the step is the "
        "newest that was seen, and may be an older one than the last",
    )


def _moment(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < LATEST else None


def _code(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**31 else None


def _text(value: object) -> str | None:
    """What can be sent on: half a surrogate pair cannot, and a program may have said a megabyte."""
    return (
        value[:ERROR_CHARACTERS].encode(errors="replace").decode()
        if isinstance(value, str)
        else None
    )


def _long_text(value: object) -> str | None:
    """The same of a traceback: its beginning, and its end from a line's start on."""
    if not isinstance(value, str):
        return None
    value = value.encode(errors="replace").decode()
    if len(value) <= TRACEBACK_CHARACTERS:
        return value
    head, _, rest = value.partition("\n")
    tail = rest[-(TRACEBACK_CHARACTERS - 300) :]
    return f"{head[:200]}\n  ...\n{tail.partition(chr(10))[2] or tail}"


#: The most of an error's words that is read of a launcher's report, and of its traceback.
ERROR_CHARACTERS = 500
TRACEBACK_CHARACTERS = 4000
_Moment = Annotated[float | None, BeforeValidator(_moment)]
_Code = Annotated[int | None, BeforeValidator(_code)]
_Text = Annotated[str | None, BeforeValidator(_text)]
_LongText = Annotated[str | None, BeforeValidator(_long_text)]


class LaunchReport(Lenient):
    """launch-<node>.json: how the launcher of one node began and, unless it was killed itself,
    ended.

    A job can write there: what is not of its type is not there. One that names no node is none.
    """

    node: str
    started: _Moment = Field(default=None, description="seconds since the epoch")
    ended: _Moment = Field(default=None, description="None: the launcher was killed, or runs")
    exit_code: _Code = None
    signal: _Code = None
    kind: _Text = Field(
        default=None,
        description="None: it ended well; signal, out-of-memory, python-error, peer, checkpoint, "
        "fenced, stopped or exit",
    )
    error: _Text = Field(default=None, description="in one line")
    traceback: _LongText = Field(default=None, description="of the program's own frames")
    exception: _Text = Field(default=None, description="the error's class")
    lasting: _Text = Field(
        default=None,
        description="program: it would fail so on any node; environment: it would, if all nodes "
        "miss the same; None: the failure may pass",
    )
    memory: _Text = Field(default=None, description="which ran out: host or device")
    remark: _Text = Field(default=None, description="what a person should know of a good end")


class BundleCode(Lenient):
    """The upload that becomes the working directory: tree and packs lie there by their hashes."""

    tree: Sha256Hex
    prefix: str = Field(description="of the bundle's own bucket, without a slash at its end")


class BundleImage(Lenient):
    """The container image in which the job runs."""

    name: str = Field(description="as the spec names it")
    digest: str = Field(
        default="",
        description="of the image that the run's first attempt had; empty: not known yet, or a "
        "file's",
    )
    mounts: list[str] = Field(
        default_factory=list, description="what a job finds besides the shared filesystem"
    )


class BundleGit(Lenient):
    """The commit that is to be fetched; its tree and packs go below `prefix`."""

    url: str
    ref: str
    path: str | None = None
    secret: str | None = Field(default=None, description="its name; never its value")
    known_hosts: list[str] = Field(default_factory=list)
    ca_certificate: str | None = None
    prefix: str = Field(description="of the bundle's own bucket, without a slash at its end")


class BundleStart(Lenient):
    """The checkpoint of another run that this run begins with."""

    run_id: str
    path: str = Field(description="relative to that run's directory")
    step: int
    export: str = Field(
        default="",
        description="where its files lie in the bundle's own bucket, without a slash at its end; "
        "'' = nowhere that this cluster's nodes can read",
    )


class KeptCode(Lenient):
    """code/<tree> of the data bucket: where a run keeps this tree and its packs."""

    prefix: str
    files: int = Field(ge=0)
    bytes: int = Field(ge=0, description="of the files")


class BundleInput(Lenient):
    """Data for the program at `path`: one of `source`, `code` and `mounted` says whence."""

    path: str = Field(description="in the working directory, or absolute as jobs see it")
    source: str = Field(default="", description="s3://BUCKET/PREFIX/ that is copied")
    code: BundleCode | None = Field(default=None, description="data that were uploaded")
    mounted: str = Field(default="", description="where every node has them mounted")


class SyncOrder(Lenient):
    """What is copied to S3 while the job runs."""

    every_seconds: float = Field(gt=0)
    checkpoints: bool = True
    prefix: str = Field(description="of the bundle's own bucket, without a slash at its end")


class JobBundle(Lenient):
    """One attempt's job, at <runs prefix>/<runId>/attempts/<n>/bundle.json; submitted as it is."""

    schema_name: Literal["trainyard.bundle.v1"] = Field(
        default="trainyard.bundle.v1", alias="schema"
    )
    run_id: str
    attempt: int = Field(ge=1)
    cluster_name: str
    batch_script: str = Field(description="the rendered sbatch file; holds no string of the user's")
    nodes: int = Field(ge=1)
    processes_per_node: int = Field(ge=1)
    partition: str | None = None
    program: list[str] = Field(description="['-m', module] or [script]")
    recipe: str = Field(
        default="torchrun", description="a file of trainyard_trainers/launch/launchers"
    )
    instance_type: str | None = Field(
        default=None, description="of the nodes, where all that the job may use have the same"
    )
    python_environment: JobPythonEnvironment | None = None
    precompile: bool = False
    arguments: list[str] = Field(default_factory=list)
    hyperparameters: dict[str, JsonValue] | None = Field(
        default=None, description="None: the program is not written for script mode"
    )
    environment: dict[str, str] = Field(default_factory=dict)
    secrets: dict[str, str] = Field(
        default_factory=dict, description="names of secrets by variable; never their values"
    )
    files: dict[str, str] = Field(default_factory=dict)
    code: BundleCode | None = None
    image: BundleImage | None = None
    git: BundleGit | None = Field(
        default=None, description="until its commit is fetched; from then on it is the code"
    )
    inputs: list[BundleInput] = Field(default_factory=list)
    checkpoint_directory: str = places.CHECKPOINTS
    checkpoint_every_seconds: float | Literal["auto"] | None = None
    seconds_between_failures: float | None = None
    checkpoint_every_steps: int | None = None
    checkpoint_keep: int = 3
    checkpoint_watch: WatchSpec | None = None
    start_from: BundleStart | None = None
    sync: SyncOrder | None = None
    progress: ProgressSetting = "auto"
    exclude_nodes: list[str] = Field(
        default_factory=list, description="Slurm node names this attempt must not use"
    )
    down_nodes: list[str] = Field(
        default_factory=list, description="Slurm node names to set down, as lost"
    )


class ExportedObject(Lenient):
    """One verified object of an export; `key` is relative to the export's prefix."""

    key: str
    bytes: int = Field(ge=0)
    sha256: Sha256Hex
    checksum: str = Field(
        default="",
        description=(
            "what S3 shows: base64, of the parts' hashes with '-<parts>' for a file that went "
            "up in parts; '' = sha256's"
        ),
    )


class KeptLink(Lenient):
    """A symbolic link of the program's to something in the same directory as it."""

    key: str = Field(description="as a file there would have it")
    target: str = Field(description="relative to the link")


class ExportManifest(Lenient):
    """export-manifest.json, written last, after HeadObject verified every object."""

    schema_name: Literal["trainyard.export.v1"] = Field(
        default="trainyard.export.v1", alias="schema"
    )
    run_id: str
    created_at: datetime
    objects: list[ExportedObject]
    links: list[KeptLink] = Field(default_factory=list)
    last_step: int | None = Field(
        default=None, description="step of the newest whole checkpoint exported"
    )
    final_model: bool = Field(
        default=False, description="the run's final/ directory is among the objects"
    )
    output_files: int = Field(
        default=0, ge=0, description="objects from the run's output directory"
    )
    output_left_out: int = Field(
        default=0, ge=0, description="files of the output directory that are not among the objects"
    )
    working_files: int = Field(
        default=0,
        ge=0,
        description="objects from the working directory, and from beside it in the run's directory",
    )
    working_left_out: int = Field(
        default=0,
        ge=0,
        description="files of these directories that are not among the objects",
    )
    left_out_bytes: int = Field(
        default=0, ge=0, description="size of all that was left out, as far as it is known"
    )


class LogMark(Lenient):
    """At this time so many bytes of a log were still to come."""

    at: int = Field(ge=0, lt=LATEST, description="seconds since the epoch")
    left: int = Field(ge=0, description="bytes from there to the log's end")


class LogTimes(Lenient):
    """attempt-<n>.times.json beside a log that is kept: when its parts were printed."""

    schema_name: Literal["trainyard.log-times.v1"] = Field(
        default="trainyard.log-times.v1", alias="schema"
    )
    marks: list[LogMark] = Field(description="oldest first")


class KeptRankLog(Lenient):
    """One rank's log, or that of a program that runs once on its node."""

    node: str
    rank: int | None = None
    bytes: int = Field(ge=0, description="of the whole log")
    kept: int = Field(ge=0, description="of its end; 0: there is no object")
    marks: list[LogMark] = Field(default_factory=list, description="oldest first")


class KeptRankLogs(Lenient):
    """attempt-<n>/rank-logs.json: the logs of single ranks that are kept with an attempt's log."""

    schema_name: Literal["trainyard.rank-logs.v1"] = Field(
        default="trainyard.rank-logs.v1", alias="schema"
    )
    ended_at: int = Field(
        default=0, ge=0, lt=LATEST, description="seconds since the epoch; 0: not known"
    )
    logs: list[KeptRankLog] = Field(description="by node and rank")
    left_out: int = Field(default=0, ge=0, description="so many more were not kept")


class SyncedObject(ExportedObject):
    """One file of a sync; its object is named by its SHA-256."""

    mode: int = Field(default=0o644, ge=0, le=0o777, description="permissions of the file")
    modified_ns: int = Field(
        default=0, ge=0, description="when the file was written, since 1970; 0: not known"
    )


class SyncManifest(Lenient):
    """manifest-<number>.json of a sync, written after all objects that it names."""

    schema_name: Literal["trainyard.sync.v1"] = Field(default="trainyard.sync.v1", alias="schema")
    run_id: str
    attempt: int = Field(ge=1)
    created_at: datetime
    objects: list[SyncedObject]
    links: list[KeptLink] = Field(default_factory=list)
    last_step: int | None = Field(default=None, description="of the newest checkpoint in it")


class SyncLatest(Lenient):
    """latest.json of a sync, replaced last in each pass: the list that is in force."""

    schema_name: Literal["trainyard.sync-latest.v1"] = Field(
        default="trainyard.sync-latest.v1", alias="schema"
    )
    run_id: str
    attempt: int = Field(ge=1, description="only it, or a newer one, may go on here")
    at: datetime = Field(description="when the pass began that found everything so")
    number: int = Field(ge=0, description="of the list; 0: there is none yet")
    sha256: str = Field(default="", description="of the list")
    objects: int = Field(default=0, ge=0)
    bytes: int = Field(default=0, ge=0, description="of the files")
    last_step: int | None = None
    left_out: int = Field(default=0, ge=0, description="files of the program's that are not in it")


class WorkerGroup(Lenient):
    """A group of workers, and the Slurm partition of its nodes."""

    name: str
    partition: str


class ClusterFile(Lenient):
    """cluster.json of the lifecycle bundle: what a node that boots must know of its cluster.

    The lifecycle scripts read it before anything of ours is installed.
    """

    cluster_name: str
    region: str
    event_bus: str
    data_bucket: str
    runs_prefix: str
    secret_name: str = Field(description="holds the key of the cluster's agents")
    heartbeat_seconds: float = Field(gt=0)
    environment: PythonEnvironment
    users: list[ClusterUser]
    s3_mounts: list[S3Mount]
    shared_filesystem: SharedFilesystem | None = Field(
        default=None, description="that the scripts mount; null: the backend mounts it"
    )
    shared_path: str = Field(
        default="", description="where every node has it, where shared_filesystem does not say so"
    )
    slurm_setup: Literal["SlurmConfig", "ProvisioningParameters", "BackendsOwn", "Adopted"] = Field(
        description="BackendsOwn: all of Slurm is the backend's, and the scripts leave it alone; "
        "Adopted: it is of others, and so is all else on the nodes"
    )
    controller_group: str
    worker_groups: list[WorkerGroup]
    expected_workers: int = Field(ge=0, description="spares may join later: a run does not wait")
    link_port: int = Field(ge=1, le=65535, description="of the controller's agent")


class AgentConfig(Lenient):
    """`<root>/etc/trainyard/agent.json`, by the lifecycle scripts: what an agent must know."""

    cluster_name: str
    cluster_arn: str
    node_name: str = Field(description="Slurm node name, ip-a-b-c-d")
    instance_id: str
    role: Literal["controller", "worker", "login"]
    address: str = Field(description="this node's IP address")
    controller_address: str
    link_port: int = Field(ge=1, le=65535, description="TCP port of the controller agent's link")
    key_file: str = Field(description="file with the cluster's own key, mode 0600")
    shared_root: str = Field(description="the shared filesystem, /fsx on AWS")
    shared_path: str = Field(
        default="",
        description="the mount path of the cluster's spec, which may lead nowhere on a node of the "
        "local cloud; '' = not known",
    )
    state_dir: str = Field(description="/var/lib/trainyard on AWS: outbox, socket")
    python: str = Field(description="interpreter of the jobs' environment")
    library_dir: str = Field(
        description="directory with the agent, the contracts, the trainers and trainyard_job"
    )
    event_bus: str
    region: str
    data_bucket: str
    runs_prefix: str = Field(
        default="runs",
        description=(
            "below it lie this cluster's runs in the data bucket; its nodes reach no others"
        ),
    )
    slurm_bin: str = Field(
        default="", description="directory of sbatch, scontrol, ...; empty = PATH"
    )
    slurm_conf: str | None = None
    partitions: list[str] = Field(
        default_factory=list,
        description="those of worker groups: a node in none of them is no worker; [] = all are",
    )
    job_end_hook: str | None = Field(
        default=None,
        description="controller: our EpilogSlurmctld, kept in force while the cluster lives",
    )
    nodes_come_and_go: bool = Field(
        default=False,
        description="nodes are powered up for jobs and down when they are idle, and their names in "
        "Slurm do not follow from their addresses",
    )
    spot: bool = Field(default=False, description="EC2 may take this node's instance back")
    metadata_endpoint: str = Field(
        default="http://169.254.169.254", description="of the instance's metadata (version 2)"
    )
    heartbeat_seconds: float = Field(default=60, gt=0)
    beat_seconds: float = Field(default=1, gt=0)
    silent_after_seconds: float = Field(
        default=3.5, gt=0, description="no beat for this long = the agent is silent"
    )
    expected_workers: int = Field(
        default=0, ge=0, description="controller: nodes that must join before ClusterReady"
    )
    mounts: list[str] = Field(
        default_factory=list, description="paths that must be mounted; checked"
    )

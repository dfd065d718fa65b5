"""What a user may ask for: a run, validated field by field before anything is created."""

from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Field,
    StringConstraints,
    WithJsonSchema,
    field_validator,
)
from typing_extensions import Self

from . import places, spec_rules
from .base import (
    Name,
    RelativePath,
    RunId,
    Sha256Hex,
    Strict,
    judged,
    matching,
    relative_path,
    rule,
    told,
)
from .cluster_parts import Requirement
from .cluster_specs import ClusterSpec
from .git_code import GitSpec
from .hyperparameters import MOST_HYPERPARAMETERS, HyperparameterName, HyperparameterValue
from .images import ImageName, is_file
from .inputs import InputSpec, RunOutputs, S3Prefix, is_s3, meeting, misplaced
from .labels import Labels
from .recipe_names import RecipeName
from .sharing import Priority
from .watching import ProgressSetting, WatchSpec

#: EC2's instance types with Neuron devices begin so.
NEURON_FAMILIES = ("trn", "inf2")
_PLAIN = told(r"^[^\x00]*$", "must not contain the NUL character")
_LONGEST = 4096
#: What a program is given is text. YAML and JSON know numbers, so a number becomes its text.
TextOrNumber = Annotated[
    str,
    StringConstraints(pattern=_PLAIN, max_length=_LONGEST),
    BeforeValidator(spec_rules.text_of),
    # The same for what is sent and for what is answered, so that the API has one JobSpec.
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": _PLAIN, "maxLength": _LONGEST},
                {"type": "number"},
            ]
        }
    ),
]
EnvironmentName = Annotated[
    str,
    matching(
        r"^[A-Za-z_][A-Za-z0-9_]{0,127}$",
        "must be a variable name: letters, digits and underscores, not starting with a digit",
    ),
]


class JobPythonEnvironment(Strict):
    """Packages of one job's own.

    Built once on the shared filesystem, on top of the cluster's environment, before the job's first
    attempt.
    """

    kind: Literal["venv", "uv", "conda"] = Field(
        default="venv", description="'uv' and 'conda' need that program on the nodes"
    )
    python: (
        Annotated[str, matching(r"^3\.[0-9]{1,2}$", "must be a version of Python such as 3.11")]
        | None
    ) = Field(
        default=None,
        description="version such as '3.11', for uv and conda; "
        "default: that of the cluster's environment",
    )
    requirements: list[Requirement] = Field(
        min_length=1, max_length=200, description="packages to install for the job"
    )

    @rule
    def _version(self) -> Self:
        if self.kind == "venv" and self.python is not None:
            raise ValueError(
                "python: a venv has the Python of the cluster's environment; "
                "use kind 'uv' or 'conda' for another version"
            )
        return self


class ClusterRef(Strict):
    """The cluster a run uses: an existing one by `name`, or one made for it from `spec`."""

    name: Name | None = Field(default=None, description="of a cluster that is there")
    spec: ClusterSpec | None = Field(
        default=None, description="of a cluster that is made for this run"
    )
    otherwise: list[ClusterSpec] = Field(
        default_factory=list,
        max_length=5,
        description="whole specs, of other backends too, that are tried in this order while AWS "
        "has no capacity for any way of spec; each may have capacity of its own",
    )

    @rule
    def _others(self) -> Self:
        if self.otherwise and self.spec is None:
            raise ValueError("otherwise: is for a cluster that is made for the run; give spec, too")
        for number, other in enumerate(self.otherwise):
            if self.spec is not None and other.name != self.spec.name:
                raise ValueError(
                    f"otherwise.{number}.name: it is the same cluster, made elsewhere; give it the "
                    f"name of spec, '{self.spec.name}'"
                )
        return self

    @rule
    def _one(self) -> Self:
        if (self.name is None) == (self.spec is None):
            raise ValueError(
                "give one of 'name' (an existing cluster) and 'spec' (a cluster made for this run)"
            )
        return self


ModuleName = Annotated[
    str,
    matching(
        r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$",
        "must be the name of a Python module such as package.train",
        max_length=256,
    ),
]


def _plain_files(files: dict[str, str]) -> dict[str, str]:
    for path in files:
        relative_path(path)
    if problem := spec_rules.file_and_directory(files.keys()):
        raise ValueError(problem)
    return files


def _free_names(environment: dict[str, str]) -> dict[str, str]:
    # LD_LIBRARY_PATH is allowed: the image and the user know where NCCL's EFA plugin lies.
    ours = ("TRAINYARD_", "SLURM_", "LD_")
    for name in environment:
        if name != "LD_LIBRARY_PATH" and (name.startswith(ours) or name in ("PATH", "PYTHONPATH")):
            raise ValueError(f"'{name}' is set by Trainyard or the node; choose another name")
    return environment


SecretReference = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9/_+=.@-]{1,512}(:[A-Za-z0-9_.-]{1,128})?$",
        "must be the name of a secret in Secrets Manager, not its ARN; of one that holds JSON also "
        "name:key",
    ),
]


class JobSpec(Strict):
    """What runs on the nodes. Every string reaches the process as data: no shell ever reads it."""

    recipe: RecipeName = Field(
        default="torchrun", description="the launcher of the job's processes"
    )
    nodes: int = Field(ge=1, le=6758, description="nodes that it runs on at once")
    processes_per_node: int = Field(
        default=1, ge=1, le=128, description="processes that the launcher starts on each"
    )
    module: ModuleName | None = Field(
        default=None, description="a module of the job's Python environment"
    )
    script: RelativePath | None = Field(
        default=None, description="path of a file in 'files', 'workdir' or 'git'"
    )
    workdir: Sha256Hex | None = Field(
        default=None,
        description="id of an upload (POST /v1/uploads) that becomes the program's working "
        "directory; the CLI takes a directory's path and uploads it",
    )
    git: GitSpec | None = Field(
        default=None,
        description="a commit of a git repository that becomes the program's working directory, "
        "in place of an upload",
    )
    arguments: list[TextOrNumber] = Field(
        default_factory=list,
        max_length=256,
        description="what the program is given; a number is taken as its text",
    )
    hyperparameters: dict[HyperparameterName, HyperparameterValue] | None = Field(
        default=None,
        max_length=MOST_HYPERPARAMETERS,
        description="of a program that is written for script mode: it gets each as --NAME VALUE "
        "after 'arguments', and the variables SM_*; {} where there are none to be given. A "
        "training job's program has the variables in any case",
    )
    environment: Annotated[dict[EnvironmentName, TextOrNumber], judged(_free_names)] = Field(
        default_factory=dict,
        max_length=128,
        description="variables that the program finds set; "
        "a number is taken as its text; those that the recipe's launcher sets (RANK, MASTER_ADDR) "
        "are refused",
    )
    secrets: Annotated[dict[EnvironmentName, SecretReference], judged(_free_names)] = Field(
        default_factory=dict,
        max_length=32,
        description="variables whose values are read from Secrets Manager on the nodes, by the "
        "secret's name, or name:key of one that holds JSON; they are stored nowhere",
    )
    files: Annotated[
        dict[str, Annotated[str, StringConstraints(max_length=131072)]], judged(_plain_files)
    ] = Field(
        default_factory=dict,
        max_length=64,
        description="texts by the paths at which the program finds them",
    )
    partition: Name | None = Field(
        default=None, description="of Slurm; needed where the cluster has several"
    )
    python_environment: JobPythonEnvironment | None = Field(
        default=None,
        description="packages of the job's own; default: the cluster's environment as it is",
    )
    image: ImageName | None = Field(
        default=None,
        description="container image in which the job runs: REGISTRY/NAME:TAG, or the path of a "
        ".sqsh file on the shared filesystem; needs Enroot and Pyxis on the nodes; default: the "
        "nodes themselves with the cluster's Python environment",
    )
    precompile: bool = Field(
        default=False,
        description="recipe 'neuron': compile the program's graphs first; training waits for it",
    )

    @rule
    def _program(self) -> Self:
        if (self.module is None) == (self.script is None):
            raise ValueError(
                "give one of 'module' (an importable module) and 'script' (a path in 'files')"
            )
        if self.workdir is not None and self.git is not None:
            raise ValueError(
                "git: the working directory is 'workdir' already; give one of 'workdir' and 'git'"
            )
        comes_along = self.workdir is not None or self.git is not None
        if self.script is not None and not comes_along and self.script not in self.files:
            raise ValueError(
                f"script: '{self.script}' is not in 'files'; add it there, or give 'workdir' or "
                "'git'"
            )
        if both := sorted(set(self.environment) & set(self.secrets)):
            raise ValueError(f"secrets: {both[0]} is in 'environment', too; remove it there")
        for field, names in (("environment", self.environment), ("secrets", self.secrets)):
            if problem := spec_rules.launchers_name(names, self.recipe):
                raise ValueError(f"{field}: {problem}")
        if self.image is not None and self.python_environment is not None:
            raise ValueError(
                "image: a job in an image has the image's Python and packages; remove "
                "'pythonEnvironment' and put its packages into the image"
            )
        if self.precompile and self.recipe != "neuron":
            raise ValueError(
                f"precompile: recipe '{self.recipe}' compiles nothing ahead; "
                "remove it or use recipe 'neuron'"
            )
        return self

    def unfit(self, cluster: ClusterSpec) -> tuple[str, str] | None:
        """Why the cluster can never run this job: the field that is wrong, and a sentence.

        None if it can.
        """
        partitions = ", ".join(cluster.partitions)
        if self.partition is None and len(cluster.partitions) > 1:
            return (
                "partition",
                f"cluster '{cluster.name}' has several partitions; name one of {partitions}",
            )
        if self.partition is not None and self.partition not in cluster.partitions:
            return (
                "partition",
                f"cluster '{cluster.name}' has no partition '{self.partition}'; "
                f"it has {partitions}",
            )
        have = cluster.worker_count(self.partition)
        where = (
            f"partition '{self.partition}' of cluster '{cluster.name}'"
            if self.partition
            else f"cluster '{cluster.name}'"
        )
        if self.nodes > have:
            return (
                "nodes",
                f"{self.nodes} nodes asked, but {where} has "
                f"{have} worker node{'' if have == 1 else 's'}; ask for at most {have}",
            )
        if self.nodes < have and cluster.nodes_come_with_jobs:
            return (
                "nodes",
                f"{self.nodes} nodes asked, but each job of {where} has all its {have} nodes; "
                f"ask for {have}",
            )
        shared = cluster.shared_path
        if self.image and is_file(self.image) and not self.image.startswith(f"{shared}/"):
            return (
                "image",
                f"'{self.image}' is not below {shared}, the shared filesystem of cluster "
                f"'{cluster.name}', so not all nodes have it; put the file there",
            )
        url = self.git.url if self.git is not None else ""
        if url.startswith("/") and not url.startswith(f"{shared}/"):
            return (
                "git.url",
                f"'{url}' is not below {shared}, the shared filesystem of cluster "
                f"'{cluster.name}', so its controller does not have it; put the repository "
                "there, or give the URL of a server",
            )
        asked = {f"secrets.{name}": reference for name, reference in self.secrets.items()}
        if self.git is not None and self.git.secret is not None:
            asked["git.secret"] = self.git.secret
        for field, reference in asked.items():
            name = reference.partition(":")[0]
            if name not in cluster.job_secrets:
                return (
                    field,
                    f"cluster '{cluster.name}' gives its jobs no secret '{name}'; name it in "
                    "jobSecrets of the cluster's spec",
                )
        if self.recipe == "neuron" and not all(
            group.ec2_type.startswith(NEURON_FAMILIES) for group in cluster.workers(self.partition)
        ):
            types = ", ".join(sorted(cluster.instance_types(self.partition)))
            return (
                "recipe",
                f"recipe 'neuron' needs Trainium or Inferentia2 nodes, but {where} has {types}; "
                "use 'torchrun'",
            )
        return None


class StartSpec(Strict):
    """A whole checkpoint of another run.

    It must lie on the same shared filesystem, or in the verified export of a run that was on a
    cluster of this run's cluster's name.
    """

    run: RunId = Field(description="whose checkpoint it is")
    step: int = Field(ge=0, le=10**13, description="of one of its whole checkpoints")


class CheckpointSpec(Strict):
    """When the trainer commits checkpoints and how many are kept on the cluster."""

    directory: RelativePath = Field(
        default=places.CHECKPOINTS,
        description="relative to the run's directory on the shared filesystem",
    )
    every_seconds: Annotated[float, Field(gt=0, le=86400)] | Literal["auto"] | None = Field(
        default=None,
        description="a checkpoint is due so long after the last; 'auto': the interval that loses "
        "least, from what a save costs and secondsBetweenFailures",
    )
    seconds_between_failures: float = Field(
        default=86400,
        ge=60,
        le=366 * 86400,
        description="expected between two failures of the whole job; used by everySeconds 'auto'",
    )
    every_steps: int | None = Field(
        default=None, ge=1, description="a checkpoint is due at every multiple of so many steps"
    )
    keep: int = Field(
        default=3, ge=2, le=1000, description="newest whole checkpoints kept on the cluster"
    )
    start_from: StartSpec | None = Field(
        default=None,
        description="the run begins with this checkpoint, as if it were its own; default: with "
        "none",
    )
    watch: WatchSpec | None = Field(
        default=None,
        description="of a program that writes checkpoints in its own way: what they are called; "
        "the agent verifies and copies them, and puts the newest whole one back where the "
        "program's own is torn or missing",
    )

    @field_validator("every_seconds", mode="before")
    @classmethod
    def _every_seconds(cls, value: object) -> object:
        # A union's own errors would name its members, which nobody wrote.
        number = (
            isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 86400
        )
        if value is None or value == "auto" or number:
            return value
        raise ValueError("must be a number of seconds greater than 0 and at most 86400, or 'auto'")


class ExportSpec(Strict):
    """What is copied to S3, at the end (always verified object by object) and before."""

    enabled: bool = Field(
        default=True,
        description="false: nothing is copied, and what was trained goes with the cluster",
    )
    checkpoints: Literal["all", "last", "none"] = Field(
        default="all",
        description="every whole checkpoint, the newest whole one, or none; the final model is "
        "copied in any case",
    )
    every_seconds: float | None = Field(
        default=None,
        ge=5,
        le=86400,
        description="while the run trains, its newest whole checkpoints and what its program made "
        "are copied to S3 so often, so that they outlive the cluster and its filesystem; default: "
        "at the end only",
    )

    @rule
    def _something_to_copy(self) -> Self:
        if self.every_seconds is not None and not self.enabled:
            raise ValueError(
                "everySeconds: nothing is copied with enabled: false; remove one of the two"
            )
        return self


class RecoverySpec(Strict):
    """The budgets of the recovery policy."""

    max_attempts: int = Field(
        default=10, ge=1, le=1000, description="submissions of the job in all"
    )
    same_error_limit: int = Field(
        default=2,
        ge=1,
        le=100,
        description="stop when the same error came this often at the same step",
    )
    in_place_restarts_per_node: int = Field(
        default=2,
        ge=0,
        le=100,
        description="how often a node that a process was killed on is used again; then it is "
        "excluded",
    )
    wait_for_node_seconds: int = Field(
        default=3600,
        ge=0,
        le=86400,
        description="how long to wait for a node when no spare is left",
    )


class LimitSpec(Strict):
    """Hard bounds of the run's life."""

    max_duration_seconds: int = Field(
        default=7 * 86400,
        ge=60,
        le=60 * 86400,
        description="then the job is stopped, and what is whole is exported",
    )
    cluster_deadline_seconds: int = Field(
        default=3600, ge=30, le=86400, description="time for the cluster to be ready"
    )
    expected_seconds: int | None = Field(
        default=None,
        ge=1,
        le=60 * 86400,
        description="how long it will probably train; a dry run gives the price of that, and "
        "nothing else follows from it",
    )


class BudgetSpec(Strict):
    """What a life of the run may cost, saving and teardown included."""

    max_usd: float = Field(gt=0, le=1e9, description="the run is stopped before it costs more")
    warn_at: list[Annotated[float, Field(gt=0, lt=1)]] = Field(
        default_factory=lambda: [0.5, 0.8, 0.95],
        max_length=10,
        description="parts of maxUsd at whose reach the timeline says so",
    )
    tail_seconds: int = Field(
        default=1200,
        ge=1,
        le=86400,
        description="how long the last checkpoint, the export and the teardown may take; their "
        "price is held back. A longer export of the run's own counts instead",
    )


class RunSpec(Strict):
    """One training job's whole life: cluster, job, checkpoints, export, teardown."""

    name: Name = Field(description="for people; an id tells runs apart")
    labels: Labels = Field(default_factory=dict)
    cluster: ClusterRef = Field(description="where it runs")
    job: JobSpec = Field(description="what runs there")
    inputs: list[InputSpec] = Field(
        default_factory=list,
        max_length=16,
        description="data that the program finds when it starts",
    )
    after: list[RunId] = Field(
        default_factory=list,
        max_length=16,
        description="runs that must have ended before this one begins; until then it is Waiting, "
        "has no cluster of its own, and its limits do not count",
    )
    after_policy: Literal["success", "end"] = Field(
        default="success",
        description="success: the run fails as soon as one of 'after' does not succeed; end: it "
        "begins when all of them have ended, however they did",
    )
    priority: Priority = 0
    checkpoint: CheckpointSpec = Field(
        default=CheckpointSpec(), description="when its state is saved on the cluster"
    )
    progress: ProgressSetting = Field(
        default="auto",
        description="where the steps of a program that reports none are read; auto: in its log, as "
        "the usual programs print them; none: nowhere. What a program reports itself comes first",
    )
    export: ExportSpec = Field(default=ExportSpec(), description="what is copied to S3")
    recovery: RecoverySpec = Field(
        default=RecoverySpec(), description="how often it is tried again after failures"
    )
    limits: LimitSpec = Field(default=LimitSpec(), description="how long it may take")
    budget: BudgetSpec | None = Field(
        default=None,
        description="what it may cost; refused where no price is known, and none is given in the "
        "cluster's hourlyUsd",
    )
    teardown: Literal["always", "on-success", "never"] | None = Field(
        default=None,
        description="whether the run's end deletes its cluster; default: 'always' for a cluster "
        "made for this run, 'never' for an existing one",
    )

    @rule
    def _apart(self) -> Self:
        if problem := meeting(self.inputs, self.job.files):
            raise ValueError(problem)
        return self

    @rule
    def _chained(self) -> Self:
        for number, run_id in enumerate(self.after):
            if run_id in self.after[:number]:
                raise ValueError(f"after.{number}: {run_id} is named twice; name each run once")
        if self.after_policy == "end" and not self.after:
            raise ValueError(
                "afterPolicy: is for a run that waits for others; name them in 'after'"
            )
        for number, one in enumerate(self.inputs):
            outputs = RunOutputs.of(one.source)
            if outputs is not None and outputs.run_id not in self.after:
                raise ValueError(
                    f"inputs.{number}.source: reads what {outputs.run_id} exports; name that run "
                    "in 'after', too"
                )
        return self

    @rule
    def _fits(self) -> Self:
        spec = self.cluster.spec
        if spec is None:
            if self.teardown not in (None, "never"):
                raise ValueError(
                    "teardown: a run never deletes a cluster that it did not create; use 'never'"
                )
            return self
        if unfit := self.unfit(spec):
            raise ValueError(f"{unfit[0]}: {unfit[1]}{self._or_more(unfit[0], spec)}")
        for number, other in enumerate(self.cluster.otherwise):
            if unfit := self.on(other).unfit(other):
                raise ValueError(
                    f"cluster.otherwise.{number}: this run cannot be of backend "
                    f"'{other.backend}': {unfit[0]}: {unfit[1]}"
                )
        return self

    def on(self, cluster: ClusterSpec) -> Self:
        """The same run with one spec only, which may be one of `cluster.otherwise`."""
        return self.changed(cluster=self.cluster.changed(spec=cluster, otherwise=[]))

    def _or_more(self, field: str, cluster: ClusterSpec) -> str:
        """The other way out, where the run's own cluster has too few nodes."""
        workers = cluster.workers(self.job.partition)
        enough = self.job.nodes <= cluster.worker_count(self.job.partition)
        if field != "job.nodes" or not workers or enough:
            return ""
        return (
            f", or give group '{workers[0].name}' of its cluster more: "
            f"cluster.spec.{cluster.count_field(workers[0])}"
        )

    def unfit(self, cluster: ClusterSpec) -> tuple[str, str] | None:
        """Why the cluster can never run this: the field that is wrong, and a sentence."""
        if self.cluster.name is not None and cluster.nodes_come_with_jobs:
            return (
                "cluster.name",
                f"cluster '{cluster.name}' was made for one run and has no nodes between its jobs; "
                "give cluster.spec",
            )
        for field, words in cluster.not_for_runs().items():
            if _given(self, field):
                return field, words
        if found := self.job.unfit(cluster):
            return f"job.{found[0]}", found[1]
        for number, one in enumerate(self.inputs):
            if found := _unfit_input(one, cluster):
                return f"inputs.{number}.{found[0]}", found[1]
        return None

    @property
    def teardown_policy(self) -> Literal["always", "on-success", "never"]:
        """The teardown in force, defaults applied."""
        return self.teardown or ("always" if self.cluster.spec is not None else "never")


def _given(spec: Strict, field: str) -> bool:
    """Whether a field, as the wire names it, differs from what it is if nobody gives it."""
    found: object = spec
    default: object = None
    for part in field.split("."):
        if not isinstance(found, Strict):
            return False
        names = {known.alias or name: name for name, known in type(found).model_fields.items()}
        known = type(found).model_fields[names[part]]
        default = known.get_default(call_default_factory=True)
        found = getattr(found, names[part])
    return found != default


def _unfit_input(one: InputSpec, cluster: ClusterSpec) -> tuple[str, str] | None:
    if problem := misplaced(one.path, cluster.shared_path):
        return "path", problem
    if not is_s3(one.source):
        return None
    source = S3Prefix.of(one.source)
    if one.mode == "mount" and cluster.mounted(source) is None:
        return (
            "mode",
            f"cluster '{cluster.name}' has not mounted {source}; name it in s3Mounts of the "
            "cluster's spec, or use mode 'copy'",
        )
    if not cluster.may_copy(source):
        return (
            "source",
            f"cluster '{cluster.name}' may not read {source}; name it in jobInputs of the "
            "cluster's spec",
        )
    return None

"""One attempt's job, as it is handed to the cluster."""

from typing import Literal

from pydantic import Field, JsonValue

from . import places
from .base import Lenient
from .bundle_parts import BundleCode, BundleGit, BundleImage, BundleInput, BundleStart, SyncOrder
from .job_python import JobPythonEnvironment
from .watching import ProgressSetting, WatchSpec


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

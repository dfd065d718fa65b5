"""What runs on the nodes of a cluster."""

from typing import Annotated

from pydantic import Field, StringConstraints
from typing_extensions import Self

from . import job_fit, spec_rules
from .base import Name, RelativePath, Sha256Hex, Strict, judged, rule
from .cluster_specs import ClusterSpec
from .git_code import GitSpec
from .hyperparameters import MOST_HYPERPARAMETERS, HyperparameterName, HyperparameterValue
from .images import ImageName
from .job_python import JobPythonEnvironment
from .job_words import (
    EnvironmentName,
    ModuleName,
    SecretReference,
    TextOrNumber,
    free_names,
    plain_files,
)
from .recipe_names import RecipeName


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
    environment: Annotated[dict[EnvironmentName, TextOrNumber], judged(free_names)] = Field(
        default_factory=dict,
        max_length=128,
        description="variables that the program finds set; "
        "a number is taken as its text; those that the recipe's launcher sets (RANK, MASTER_ADDR) "
        "are refused",
    )
    secrets: Annotated[dict[EnvironmentName, SecretReference], judged(free_names)] = Field(
        default_factory=dict,
        max_length=32,
        description="variables whose values are read from Secrets Manager on the nodes, by the "
        "secret's name, or name:key of one that holds JSON; they are stored nowhere",
    )
    files: Annotated[
        dict[str, Annotated[str, StringConstraints(max_length=131072)]], judged(plain_files)
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

    def unfit(self, cluster: ClusterSpec) -> job_fit.Unfit:
        """Why the cluster can never run this job: the field that is wrong, and a sentence.

        None if it can.
        """
        return (
            job_fit.of_partition(self.partition, cluster)
            or job_fit.of_nodes(self.nodes, self.partition, cluster)
            or job_fit.of_image(self.image, cluster)
            or job_fit.of_git(self.git, cluster)
            or job_fit.of_secrets(self.secrets, self.git, cluster)
            or job_fit.of_recipe(self.recipe, self.partition, cluster)
        )

"""How a training job's program is started: in which image, and by which launcher."""

import json
from typing import Literal

from pydantic import Field, JsonValue
from typing_extensions import Self

from .base import Strict, rule
from .hyperparameters import LONGEST_VALUE
from .training_job_words import GroupName, ModelDirectory, MpiOptions, PythonVersion, Version

Kind = Literal["none", "torchrun", "pytorchddp", "smddp", "smp", "mpi", "parameter-server"]
FrameworkName = Literal["pytorch", "tensorflow", "mxnet", "huggingface", "pytorch-neuronx"]
#: What each kind of distribution may be told besides; other options are refused.
OPTIONS: dict[Kind, tuple[str, ...]] = {
    "none": (),
    "torchrun": ("library", "customMpiOptions", "parameters"),
    "pytorchddp": ("customMpiOptions",),
    "smddp": ("customMpiOptions",),
    "smp": ("processesPerHost", "customMpiOptions", "parameters"),
    "mpi": ("processesPerHost", "customMpiOptions"),
    "parameter-server": (),
}


def numbers(version: str) -> tuple[int, int]:
    """Major and minor."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


class BaseFramework(Strict):
    """The framework that a Hugging Face image is built on."""

    name: Literal["pytorch", "tensorflow"] = Field(description="of the framework")
    version: Version = Field(description="of that framework, such as 2.8.0")


class Framework(Strict):
    """One of AWS's framework images, by what is in it."""

    name: FrameworkName = Field(description="of the framework, as AWS's images are named")
    version: Version = Field(description="of the framework; of Hugging Face's, of transformers")
    python_version: PythonVersion | None = Field(
        default=None,
        description="as the images' tags have it, such as py310; default: the only one there is",
    )
    base: BaseFramework | None = Field(
        default=None, description="huggingface only: what its image is built on"
    )
    model_dir: ModelDirectory | None = Field(
        default=None,
        description="tensorflow only: the hyperparameter model_dir; default: below the job's "
        "output, or /opt/ml/model under mpi; 'none': no such hyperparameter",
    )

    @rule
    def _parts(self) -> Self:
        if (self.name == "huggingface") != (self.base is not None):
            raise ValueError(
                "base: huggingface needs it (name pytorch or tensorflow, and its version), and no "
                "other framework has one"
            )
        if self.base is not None and self.base.version.count(".") != self.version.count("."):
            raise ValueError(
                "base.version: give both versions whole, such as 4.56.2 and 2.8.0, or both short, "
                "such as 4.56 and 2.8"
            )
        if self.name != "tensorflow" and self.model_dir is not None:
            raise ValueError("modelDir: is tensorflow's; remove it")
        return self

    @property
    def runs(self) -> tuple[str, str]:
        """The framework that the program meets, and its version: Hugging Face's is its base."""
        return (self.base.name, self.base.version) if self.base else (self.name, self.version)


class Distribution(Strict):
    """How the program is started on several nodes or several accelerators."""

    kind: Kind = Field(
        default="none",
        description="'none' starts the program once on each node; 'smddp' and 'smp' are "
        "SageMaker's libraries of data and model parallelism; the others are what they are called",
    )
    library: Literal["smddp", "smp"] | None = Field(
        default=None, description="torchrun only: a library of SageMaker's that it works with"
    )
    processes_per_host: int | None = Field(
        default=None, ge=1, description="mpi and smp only; smp needs it"
    )
    custom_mpi_options: MpiOptions = Field(
        default="", description="options for mpirun; mpi, smp, smddp and pytorchddp only"
    )
    parameters: dict[str, JsonValue] = Field(
        default_factory=dict, description="of the model parallelism library; smp only"
    )
    instance_group: GroupName | None = Field(
        default=None, description="which group of instanceGroups it runs on"
    )

    @rule
    def _options(self) -> Self:
        given = {
            "library": self.library,
            "processesPerHost": self.processes_per_host,
            "customMpiOptions": self.custom_mpi_options,
            "parameters": self.parameters,
        }
        for name, value in given.items():
            if value and name not in OPTIONS[self.kind]:
                raise ValueError(f"{name}: is no option of distribution '{self.kind}'; remove it")
        return self

    @rule
    def _needed(self) -> Self:
        if self.kind == "smp" and self.processes_per_host is None:
            raise ValueError("processesPerHost: smp runs under mpi and needs it, such as 8")
        if self.kind == "torchrun" and self.parameters and self.library != "smp":
            raise ValueError("parameters: are smp's; set library to 'smp', or remove them")
        if self.kind == "torchrun" and self.custom_mpi_options and self.library != "smddp":
            raise ValueError(
                "customMpiOptions: are smddp's; set library to 'smddp', or remove them"
            )
        return self

    @rule
    def _size(self) -> Self:
        size = len(json.dumps(self.parameters))
        if size > LONGEST_VALUE:
            raise ValueError(
                f"parameters: are {size} characters as JSON, and a hyperparameter has at most "
                f"{LONGEST_VALUE}; remove some"
            )
        return self

    @property
    def data_parallel(self) -> bool:
        """Whether the data parallelism library (SMDDP) runs."""
        return self.kind in ("smddp", "pytorchddp") or self.library == "smddp"

    @property
    def model_parallel(self) -> Literal["", "v1", "v2"]:
        """The version of the model parallelism library (SMP) that runs."""
        return "v1" if self.kind == "smp" else "v2" if self.library == "smp" else ""

"""Which images the environment of the toolkits can stand for, and what a container then runs.

No image is run here. AWS's PyTorch images start the program `train` of the SageMaker training
toolkit, with the PyTorch toolkit as its framework.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FRAMEWORK = "sagemaker_pytorch_container.training:main"
#: A repository with one of these in its name needs what is not here.
_OTHERS = ("neuron", "tensorflow", "mxnet", "xgboost", "sklearn", "scikit", "jax", "smdistributed")
#: Hyperparameters that have the toolkit start MPI, and so sshd and mpirun.
_MPI = (
    "sagemaker_mpi_enabled",
    "sagemaker_distributed_dataparallel_enabled",
    "sagemaker_pytorch_ddp_enabled",
    "sagemaker_pytorch_xla_multi_worker_enabled",
)


def framework(image: str) -> str:
    """`pytorch`, `python`, or an empty string for any other image."""
    name = image.rpartition("/")[2].partition("@")[0].partition(":")[0].lower()
    if any(other in name for other in _OTHERS):
        return ""
    return next((kind for kind in ("pytorch", "python") if kind in name), "")


def refusal(image: str, entrypoint: Sequence[str], parameters: Mapping[str, str]) -> str:
    """Why nothing here can do what the image does; an empty string if it can."""
    kind = framework(image)
    if not kind:
        return (
            f"algorithmSpecification.trainingImage: the local cloud runs no images, and nothing "
            f"here stands for '{image}'; it stands for images with pytorch or python in the "
            "repository's name, without neuron"
        )
    if kind == "python" and not entrypoint:
        return (
            "algorithmSpecification.containerEntrypoint: an image of plain Python has no program "
            "`train`; give the program to run"
        )
    asked = [name for name in _MPI if parameters.get(name, "false").strip('"').lower() == "true"]
    if asked and not entrypoint:
        return (
            f"hyperParameters.{asked[0]}: it starts mpirun and sshd, which do not run here; "
            "use sagemaker_torch_distributed_enabled"
        )
    return ""


def command(specification: Mapping[str, Any]) -> list[str]:
    """What the container runs: the entry point and arguments as given, else the image's own."""
    entrypoint = specification.get("ContainerEntrypoint") or ["train"]
    return [*entrypoint, *(specification.get("ContainerArguments") or [])]


def variables(image: str) -> dict[str, str]:
    """What the image itself has in its environment."""
    own = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"}
    return own | ({"SAGEMAKER_TRAINING_MODULE": FRAMEWORK} if framework(image) == "pytorch" else {})

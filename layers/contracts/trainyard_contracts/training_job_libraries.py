"""Refuses SageMaker's libraries of parallelism where no image has them, or no type runs them.

SMDDP is the library of data parallelism, SMP that of model parallelism. Every function returns
"field: what is wrong, and what would be right", or None.
"""

from __future__ import annotations

from collections.abc import Collection

from .training_job_launch import Distribution, Framework, numbers

#: The SDK's list (sagemaker 2.257.7, fw_utils); the guide's of 2026 has no ml.p3.16xlarge any more.
SMDDP_TYPES = ("ml.p3.16xlarge", "ml.p3dn.24xlarge", "ml.p4d.24xlarge", "ml.p4de.24xlarge")
#: First and last version of each framework whose image has SMDDP, by the SDK's list and the guide's
#: page "Supported frameworks, AWS Regions, and instances types" (PyTorch 2.3.0).
SMDDP_VERSIONS = {"pytorch": ((1, 6), (2, 3)), "tensorflow": ((2, 3), (2, 11))}
#: The same of SMP v1: its last images are PyTorch 2.0.0 and TensorFlow 2.6.0 (the guide's page of
#: its frameworks).
SMP_VERSIONS = {"pytorch": ((1, 6), (2, 0)), "tensorflow": ((2, 3), (2, 6))}
#: The types that SMP v1 runs on (the same page), and their GPUs (the SDK's instance_gpu_info.json).
SMP_GPUS = {
    "ml.g4dn.12xlarge": 4,
    "ml.p3.16xlarge": 8,
    "ml.p3dn.24xlarge": 8,
    "ml.p4d.24xlarge": 8,
    "ml.p4de.24xlarge": 8,
}
#: Degrees of model parallelism whose product is a model's share of the processes.
_DEGREES = (("partitions", "pipeline_parallel_degree"), ("tensor_parallel_degree",))
_CHOICES = {
    "pipeline": ("simple", "interleaved", "_only_forward"),
    "placement_strategy": ("spread", "cluster"),
    "optimize": ("speed", "memory"),
}
#: An image without the libraries' launcher, by the SDK (UNSUPPORTED_DLC_IMAGE_FOR_SM_PARALLELISM).
_WITHOUT_LAUNCHER = "2.0.1-gpu-py310-cu121"


def data_parallel(
    types: Collection[str], distribution: Distribution, framework: Framework | None
) -> str | None:
    """SMDDP is in some images and runs on some types; the SDK does not look at the type."""
    if not distribution.data_parallel:
        return None
    what = "library" if distribution.library else "kind"
    if wrong := sorted(set(types) - set(SMDDP_TYPES)):
        return (
            f"distribution.{what}: the data parallelism library (SMDDP) does not run on "
            f"{wrong[0]}; it needs one of {', '.join(SMDDP_TYPES)}; elsewhere use torchrun alone"
        )
    if framework is None:
        return None
    name, version = framework.runs
    bounds = SMDDP_VERSIONS.get(name)
    if bounds is None or not bounds[0] <= numbers(version) <= bounds[1]:
        return (
            f"distribution.{what}: AWS's image of {name} {version} has no data parallelism "
            "library (SMDDP): it is in PyTorch 1.6 to 2.3 and TensorFlow 2.3 to 2.11; "
            "use torchrun alone"
        )
    return None


def model_parallel(
    types: Collection[str], distribution: Distribution, framework: Framework | None, nodes: int
) -> str | None:
    """SMP v1 runs one process on a GPU, and splits a model over some of them."""
    if distribution.model_parallel != "v1":
        return None
    if framework and not _has_smp(framework):
        return (
            f"distribution.kind: AWS's image of {' '.join(framework.runs)} has no 'smp', which is "
            "the library's version 1 (PyTorch 1.6 to 2.0, TensorFlow 2.3 to 2.6); newer PyTorch "
            "has 'torchrun' with library 'smp'"
        )
    if wrong := sorted(set(types) - set(SMP_GPUS)):
        return (
            f"distribution.kind: the model parallelism library's version 1 does not run on "
            f"{wrong[0]}; it needs one of {', '.join(SMP_GPUS)}; elsewhere use 'torchrun' with "
            "library 'smp'"
        )
    return _processes(types, distribution, nodes)


def _has_smp(framework: Framework) -> bool:
    name, version = framework.runs
    first, last = SMP_VERSIONS.get(name, ((0, 0), (0, 0)))
    return first <= numbers(version) <= last


def _processes(types: Collection[str], distribution: Distribution, nodes: int) -> str | None:
    each = distribution.processes_per_host or 1
    gpus = min((SMP_GPUS[one] for one in types), default=each)
    if each > gpus:
        return f"distribution.processesPerHost: {each} is more than the {gpus} GPUs of a node"
    needed = _share(distribution)
    if needed > each * nodes:
        return (
            f"distribution.parameters: split a model over {needed} processes, and {nodes} nodes "
            f"with processesPerHost {each} have {each * nodes}"
        )
    return None


def launcher_in(image: str | None, distribution: Distribution) -> str | None:
    """One image of AWS's starts the libraries by torchrun only."""
    alone = distribution.kind != "torchrun" and (
        distribution.data_parallel or distribution.model_parallel
    )
    if alone and image and _WITHOUT_LAUNCHER in image:
        return "image: has no launcher for the library; use torchrun with the library, or another"
    return None


def _share(distribution: Distribution) -> int:
    share = 1
    for names in _DEGREES:
        given = [distribution.parameters.get(name) for name in names]
        share *= next((one for one in given if isinstance(one, int) and one > 0), 1)
    return share


def smp_parameters(distribution: Distribution) -> str | None:
    """What the SDK refuses in the library's configuration, before a node is paid for."""
    given = distribution.parameters
    for name in ("microbatches", "partitions", "active_microbatches"):
        value = given.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            return f"distribution.parameters: {name} must be a whole number of at least 1"
    for name, words in _CHOICES.items():
        if name in given and given[name] not in words:
            return f"distribution.parameters: {name} must be one of {', '.join(words)}"
    if given.get("ddp") and given.get("horovod"):
        return "distribution.parameters: ddp and horovod exclude each other; set one of them"
    if given.get("auto_partition") is False and "default_partition" not in given:
        return "distribution.parameters: auto_partition false needs default_partition"
    return None

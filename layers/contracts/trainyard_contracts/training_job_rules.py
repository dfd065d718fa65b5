"""Refuses training jobs whose parts are well-formed and which AWS, or its container, cannot run.

Every function returns "field: what is wrong, and what would be right", or None.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .training_job_data import Channel, InstanceGroup
from .training_job_launch import Distribution, Framework

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
#: The first PyTorch whose image starts programs by torchrun (the SDK's list begins there).
_TORCHRUN = (1, 13)
_LAUNCHERS = {
    "mxnet": ("none", "mpi", "parameter-server"),
    "tensorflow": ("none", "smddp", "smp", "mpi", "parameter-server"),
    "pytorch-neuronx": ("none", "torchrun"),
}


def is_trainium(instance_type: str) -> bool:
    return instance_type.startswith("ml.trn")


def is_gpu(instance_type: str) -> bool:
    """The families g... and p..., as the SDK tells them."""
    return instance_type.startswith(("ml.g", "ml.p"))


def numbers(version: str) -> tuple[int, int]:
    """Major and minor."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def trainium(
    types: Collection[str], distribution: Distribution, framework: Framework | None
) -> str | None:
    """Trainium has torchrun, PyTorch, and none of the GPUs' libraries."""
    neuron = any(map(is_trainium, types))
    if neuron and distribution.kind not in ("none", "torchrun"):
        return (
            f"distribution.kind: '{distribution.kind}' does not run on Trainium; "
            "use 'torchrun' there"
        )
    if neuron and distribution.library is not None:
        return f"distribution.library: '{distribution.library}' does not run on Trainium; remove it"
    if framework is None:
        return None
    if neuron and framework.name not in ("pytorch", "pytorch-neuronx"):
        return (
            f"framework.name: AWS's images of {framework.name} are not for Trainium; use pytorch "
            "or pytorch-neuronx, or name an image of your own (image)"
        )
    if framework.name == "pytorch-neuronx" and not all(map(is_trainium, types)):
        return "framework.name: pytorch-neuronx is for Trainium only; use pytorch"
    return None


def launcher(distribution: Distribution, framework: Framework | None) -> str | None:
    """Which framework's image knows which launcher."""
    if framework is None:
        return None
    name, version = framework.runs
    known = _LAUNCHERS.get(name)
    if known is not None and distribution.kind not in known:
        return (
            f"distribution.kind: AWS's image of {name} does not know '{distribution.kind}'; "
            f"it knows {', '.join(known)}"
        )
    if framework.name == "huggingface" and distribution.library is not None:
        return (
            "distribution.library: AWS's Hugging Face images take none beside torchrun; remove it"
        )
    first, last = SMP_VERSIONS.get(name, ((0, 0), (0, 0)))
    if distribution.model_parallel == "v1" and not first <= numbers(version) <= last:
        return (
            f"distribution.kind: AWS's image of {name} {version} has no 'smp', which is the "
            "library's version 1 (PyTorch 1.6 to 2.0, TensorFlow 2.3 to 2.6); newer PyTorch has "
            "'torchrun' with library 'smp'"
        )
    return None


def torchrun(
    types: Collection[str], distribution: Distribution, framework: Framework | None
) -> str | None:
    """torchrun came to the images with PyTorch 1.13, and to Trainium's with 1.11."""
    if distribution.kind != "torchrun" or framework is None:
        return None
    first = (1, 11) if any(map(is_trainium, types)) else _TORCHRUN
    name, version = framework.runs
    if name == "pytorch" and numbers(version) < first:
        return (
            f"framework.version: AWS's image of PyTorch {version} has no torchrun; "
            f"use {first[0]}.{first[1]} or newer, or another distribution"
        )
    return None


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


def model_parallel(types: Collection[str], distribution: Distribution, nodes: int) -> str | None:
    """SMP v1 runs one process on a GPU, and splits a model over some of them."""
    if distribution.model_parallel != "v1":
        return None
    if wrong := sorted(set(types) - set(SMP_GPUS)):
        return (
            f"distribution.kind: the model parallelism library's version 1 does not run on "
            f"{wrong[0]}; it needs one of {', '.join(SMP_GPUS)}; elsewhere use 'torchrun' with "
            "library 'smp'"
        )
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


_CHOICES = {
    "pipeline": ("simple", "interleaved", "_only_forward"),
    "placement_strategy": ("spread", "cluster"),
    "optimize": ("speed", "memory"),
}


def group_of(distribution: Distribution, groups: Sequence[InstanceGroup]) -> str | None:
    """A distribution runs on one group, which has a name where there are several."""
    named = distribution.instance_group
    if not groups:
        return named and "distribution.instanceGroup: needs instanceGroups; remove it"
    names = [group.name for group in groups]
    if len(set(names)) != len(names):
        return "instanceGroups: every group needs a name of its own"
    if named is not None and named not in names:
        return f"distribution.instanceGroup: there is no group '{named}'; name one of {names}"
    if distribution.kind == "none":
        return named and "distribution.instanceGroup: is no option of distribution 'none'"
    if distribution.kind == "parameter-server" or distribution.model_parallel == "v2":
        return "instanceGroups: run with mpi, smddp, smp or torchrun; use instanceType here"
    if named is None and len(groups) > 1:
        return f"distribution.instanceGroup: is needed; name the group it runs on, one of {names}"
    return None


def channels(
    given: Sequence[Channel], isolated: bool, groups: Sequence[InstanceGroup]
) -> str | None:
    """Names of channels, and of the groups that get their data."""
    names = [channel.name for channel in given]
    if len(set(names)) != len(names):
        return "channels: every channel needs a name of its own"
    if isolated and "code" in names:
        return (
            "channels: with networkIsolation the program comes by a channel 'code'; "
            "give yours another name"
        )
    if isolated and len(names) > 19:
        return "channels: at most 19 with networkIsolation, where the program takes one of the 20"
    known = {group.name for group in groups}
    for channel in given:
        wanted = set(channel.s3.instance_groups) if channel.s3 else set()
        if wanted - known:
            return f"channels: '{channel.name}' is for a group that there is not"
    return None


def pipe_only(given: Sequence[Channel], job_mode: str) -> str | None:
    """What AWS does in Pipe mode only."""
    for channel in given:
        mode = channel.input_mode or job_mode
        wanting = channel.compression or channel.record_wrapper
        manifest = channel.s3 is not None and channel.s3.data_type == "AugmentedManifestFile"
        if mode != "Pipe" and (wanting or manifest):
            what = "AugmentedManifestFile" if manifest else wanting
            return f"channels: '{channel.name}' has {what}, which needs inputMode 'Pipe'"
    return None

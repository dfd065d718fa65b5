"""Refuses training jobs whose parts are well-formed and which AWS, or its container, cannot run.

Every function returns "field: what is wrong, and what would be right", or None.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .training_job_data import Channel, InstanceGroup
from .training_job_launch import Distribution, Framework, numbers

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
    name, _ = framework.runs
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

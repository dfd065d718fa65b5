"""What AWS accepts of a training job, and people would want to know before they pay for it."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.backends.training_job.environment import FORGOTTEN_TYPES
from trainyard_contracts.ec2_types import known
from trainyard_contracts.training_job import TrainingJobClusterSpec
from trainyard_contracts.training_job_rules import is_gpu, is_trainium

#: The guide's limit of a warm pool; botocore's model takes up to six hours.
GUIDE_WARM_POOL_SECONDS = 3600
#: Types whose nodes speak over EFA: those of the container's lists, and those it forgot.
EFA_TYPES = FORGOTTEN_TYPES | {
    "ml.g4dn.8xlarge", "ml.g4dn.12xlarge", "ml.g5.48xlarge", "ml.p3dn.24xlarge",
    "ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.p5.48xlarge", "ml.trn1.32xlarge",
}  # fmt: skip


def warnings(spec: TrainingJobClusterSpec) -> list[str]:
    """Sentences, each beginning with the field; [] where there is nothing to say."""
    return [*_network(spec), *_slow(spec), *_launch(spec), *_pool(spec), *_variables(spec)]


def _network(spec: TrainingJobClusterSpec) -> Iterator[str]:
    efa = {group.instance_type for group in spec.host_groups} & EFA_TYPES
    if efa and spec.network and len(spec.network.subnet_ids) > 1:
        yield (
            f"network.subnetIds: {sorted(efa)[0]} speaks over EFA, which does not cross "
            "Availability Zones; with several subnets nodes may come to lie in different ones."
        )


def _slow(spec: TrainingJobClusterSpec) -> Iterator[str]:
    """Accelerators whose nodes share gradients over TCP; only types that EC2's rows have."""
    if spec.launch_nodes < 2:
        return
    names = sorted({name.removeprefix("ml.") for name in spec.launch_types})
    slow = [found.name for found in known(names) if found.accelerators and not found.efa]
    if slow:
        yield (
            f"instanceType: ml.{slow[0]} has no EFA, so {spec.launch_nodes} nodes speak over TCP; "
            "a type with EFA, or one larger node, is faster where gradients are large."
        )


def _launch(spec: TrainingJobClusterSpec) -> Iterator[str]:
    how = spec.distribution
    if how.kind != "none":
        yield (
            f"distribution.kind: '{how.kind}' is started by AWS's toolkit, which does not hand "
            "SIGTERM on: a program that is stopped saves nothing. With 'none' Trainyard's launcher "
            "starts job.recipe on all nodes."
        )
    if how.kind == "parameter-server" and spec.framework and spec.framework.runs[0] == "pytorch":
        yield (
            "distribution.kind: AWS's image of PyTorch starts no parameter server; each node runs "
            "the program alone."
        )
    if how.kind == "torchrun" and len(spec.instance_groups) > 1:
        yield (
            "distribution.instanceGroup: AWS's SDK names no group for torchrun; nodes of every "
            "group may join."
        )
    types = spec.launch_types
    if how.kind == "torchrun" and not all(is_gpu(one) or is_trainium(one) for one in types):
        yield (
            "distribution.kind: AWS's SDK takes torchrun for GPUs and Trainium only; on other "
            "nodes it starts one process."
        )


def _pool(spec: TrainingJobClusterSpec) -> Iterator[str]:
    seconds = spec.warm_pool_seconds
    if seconds is not None and seconds > GUIDE_WARM_POOL_SECONDS:
        yield (
            f"warmPoolSeconds: {seconds} is more than the {GUIDE_WARM_POOL_SECONDS} that AWS's "
            "guide allows; its API takes up to 21600."
        )


def _variables(spec: TrainingJobClusterSpec) -> Iterator[str]:
    types = {group.instance_type for group in spec.host_groups}
    forgotten = types & FORGOTTEN_TYPES
    if forgotten and types - FORGOTTEN_TYPES:
        yield (
            f"instanceGroups: AWS's container does not set EFA's variables for "
            f"{sorted(forgotten)[0]}, and all groups have the same; the program must set them."
        )

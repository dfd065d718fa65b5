"""Variables for EFA that AWS's container sets by a list of instance types, which is not up to date.

The lists are SM_EFA_NCCL_INSTANCES and SM_EFA_RDMA_INSTANCES of aws/sagemaker-training-toolkit: a
type that is in neither gets no variable, and its nodes may speak over TCP without a word.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

#: Types with EFA that the container's lists do not have (the lists end with ml.p5.48xlarge and
#: ml.trn1.32xlarge).
FORGOTTEN_TYPES = frozenset({
    "ml.p5e.48xlarge", "ml.p5en.48xlarge", "ml.p6-b200.48xlarge", "ml.p6-b300.48xlarge",
    "ml.p6e-gb200.36xlarge", "ml.trn1n.32xlarge", "ml.trn2.48xlarge",
})  # fmt: skip
#: What the container sets for the types of both its lists.
EFA_VARIABLES: Mapping[str, str] = {
    "FI_PROVIDER": "efa",
    "FI_EFA_USE_DEVICE_RDMA": "1",
    "RDMAV_FORK_SAFE": "1",
}


def environment(given: Mapping[str, str], instance_types: Collection[str]) -> dict[str, str]:
    """The job's variables: what the user gave, and EFA's where every node has it.

    All groups of a job get the same variables, and FI_PROVIDER=efa breaks libfabric on a type
    without EFA; so one such type among the job's leaves them out.
    """
    forgotten = bool(instance_types) and set(instance_types) <= FORGOTTEN_TYPES
    return {**(EFA_VARIABLES if forgotten else {}), **given}

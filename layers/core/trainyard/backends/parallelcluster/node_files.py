"""What each node of a cluster reads of it: the files of its bundle that are made of the spec."""

from __future__ import annotations

from trainyard.backends import lifecycle_bundle
from trainyard.backends.parallelcluster.making import Making
from trainyard_contracts import places
from trainyard_contracts.files import ClusterFile, WorkerGroup
from trainyard_contracts.parallelcluster import HEAD_NODE


def generated_files(making: Making) -> dict[str, bytes]:
    """By path below the bundle's prefix."""
    content = cluster_file(making).model_dump(mode="json", by_alias=True)
    return {places.CLUSTER_FILE: lifecycle_bundle.as_file(content)}


def cluster_file(making: Making) -> ClusterFile:
    """Only nodes that always run are expected: the others come when a job wants them."""
    spec = making.spec
    return lifecycle_bundle.cluster_file(
        spec.name,
        spec,
        making.settings,
        shared_path=spec.shared_path,
        slurm_setup="BackendsOwn",
        controller_group=HEAD_NODE,
        worker_groups=[WorkerGroup(name=queue.name, partition=queue.name) for queue in spec.queues],
        expected_workers=sum(queue.min for queue in spec.queues),
    )

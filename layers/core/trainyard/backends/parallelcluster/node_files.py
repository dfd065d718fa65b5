"""What each node of a cluster reads of it: the files of its bundle that are made of the spec."""

from __future__ import annotations

import json

from trainyard.backends.parallelcluster.making import Making
from trainyard_contracts import places
from trainyard_contracts.files import ClusterFile, WorkerGroup
from trainyard_contracts.parallelcluster import HEAD_NODE


def generated_files(making: Making) -> dict[str, bytes]:
    """By path below the bundle's prefix."""
    content = cluster_file(making).model_dump(mode="json", by_alias=True)
    return {places.CLUSTER_FILE: (json.dumps(content, indent=2) + "\n").encode()}


def cluster_file(making: Making) -> ClusterFile:
    """Only nodes that always run are expected: the others come when a job wants them."""
    spec, settings = making.spec, making.settings
    return ClusterFile(
        cluster_name=spec.name,
        region=settings.region,
        event_bus=settings.event_bus,
        data_bucket=settings.bucket,
        runs_prefix=places.runs_prefix(spec.name),
        secret_name=places.agent_key_secret(settings.secret_prefix, spec.name),
        heartbeat_seconds=settings.heartbeat_seconds,
        environment=spec.environment,
        users=spec.users,
        s3_mounts=spec.s3_mounts,
        shared_path=spec.shared_path,
        slurm_setup="BackendsOwn",
        controller_group=HEAD_NODE,
        worker_groups=[WorkerGroup(name=queue.name, partition=queue.name) for queue in spec.queues],
        expected_workers=sum(queue.min for queue in spec.queues),
        link_port=settings.link_port,
    )

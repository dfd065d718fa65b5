"""ParallelCluster's configuration of a cluster, made of its spec.

Pure, so that a dry run shows exactly what is sent. The text is JSON, which every reader of YAML
reads, with all keys in one order: the same spec always gives the same text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trainyard.backends.parallelcluster.making import Making
from trainyard.backends.parallelcluster.policies import policy_arn
from trainyard.backends.parallelcluster.slurm_settings import custom_settings
from trainyard.backends.parallelcluster.storage import shared_storage
from trainyard_contracts.parallelcluster import LOCAL_SCRATCH
from trainyard_contracts.parallelcluster_parts import LoginPool, NodeScript
from trainyard_contracts.parallelcluster_queues import Queue

#: With it, commands reach a node through Systems Manager; the API stack may attach it.
SSM_POLICY = "iam::aws:policy/AmazonSSMManagedInstanceCore"
#: ParallelCluster's name for the one compute resource of each queue.
NODES = "nodes"
_CAPACITY = {"onDemand": "ONDEMAND", "spot": "SPOT", "capacityBlock": "CAPACITY_BLOCK"}
_STRATEGIES = {
    "lowestPrice": "lowest-price",
    "prioritized": "prioritized",
    "capacityOptimized": "capacity-optimized",
    "capacityOptimizedPrioritized": "capacity-optimized-prioritized",
    "priceCapacityOptimized": "price-capacity-optimized",
}


def document(making: Making) -> str:
    """The configuration as the API takes it."""
    return json.dumps(configuration(making), indent=2) + "\n"


def configuration(making: Making) -> dict[str, Any]:
    spec, settings = making.spec, making.settings
    made: dict[str, Any] = {
        "Region": settings.region,
        "Image": _given({"Os": spec.image.os, "CustomAmi": spec.image.custom_ami}),
        "Imds": {"ImdsSupport": "v2.0"},
        "HeadNode": _head_node(making),
        "Scheduling": {
            "Scheduler": "slurm",
            "SlurmSettings": {
                "QueueUpdateStrategy": "DRAIN",
                "CustomSlurmSettings": custom_settings(spec, with_hook=bool(making.node_script)),
            },
            "SlurmQueues": [_queue(making, queue) for queue in spec.queues],
        },
        "SharedStorage": [shared_storage(one) for one in spec.shared_storage],
        "Tags": [{"Key": key, "Value": value} for key, value in sorted(making.tags.items())],
    }
    if spec.login_nodes:
        made["LoginNodes"] = {"Pools": [_pool(making, pool) for pool in spec.login_nodes]}
    if settings.node_boundary_arn:
        made["Iam"] = {"PermissionsBoundary": settings.node_boundary_arn}
    if settings.artifact_bucket:
        made["CustomS3Bucket"] = settings.artifact_bucket
    return made


def _head_node(making: Making) -> dict[str, Any]:
    head = making.spec.head_node
    node: dict[str, Any] = {
        "InstanceType": head.instance_type,
        "Networking": {"SubnetId": head.subnet_id},
        "LocalStorage": {"RootVolume": {"Size": head.root_volume_gib, "Encrypted": True}},
        "Iam": _permissions(making, head.scripts),
    }
    if ssh := _given({"KeyName": head.key_name, "AllowedIps": head.ssh_from}):
        node["Ssh"] = ssh
    if head.dcv:
        node["Dcv"] = {"Enabled": True, "AllowedIps": head.dcv_from}
    actions = _actions(making, "controller", head.scripts)
    if ours := making.node_script:
        # After an update the head node's agent must know the queues of now.
        updated = {"Script": ours, "Args": [making.bundle, "controller", "updated"]}
        actions["CustomActions"]["OnNodeUpdated"] = {"Sequence": [updated]}
    return node | actions


def _queue(making: Making, queue: Queue) -> dict[str, Any]:
    settings: dict[str, Any] = {"RootVolume": _root_volume(queue)}
    if queue.local_scratch:
        settings["EphemeralVolume"] = {"MountDir": LOCAL_SCRATCH}
    made: dict[str, Any] = {
        "Name": queue.name,
        "CapacityType": _CAPACITY[queue.capacity],
        "ComputeSettings": {"LocalStorage": settings},
        "ComputeResources": [_compute_resource(queue)],
        "Networking": {"SubnetIds": list(queue.subnet_ids)},
        "Iam": _permissions(making, queue.scripts),
    }
    if queue.allocation_strategy is not None:
        made["AllocationStrategy"] = _STRATEGIES[queue.allocation_strategy]
    if queue.capacity != "capacityBlock":
        made["Networking"]["PlacementGroup"] = {"Enabled": queue.placed_together}
    if queue.custom_ami is not None:
        made["Image"] = {"CustomAmi": queue.custom_ami}
    return made | _actions(making, "worker", queue.scripts, neuron=queue.neuron)


def _root_volume(queue: Queue) -> dict[str, Any]:
    return _given({"Size": queue.root_volume_gib}) | {"Encrypted": True}


def _compute_resource(queue: Queue) -> dict[str, Any]:
    made: dict[str, Any] = {"Name": NODES, "MinCount": queue.min, "MaxCount": queue.max}
    if queue.capacity_reservation_id is not None:  # a fleet of several types takes no reservation
        made["InstanceType"] = queue.instance_types[0]
    else:
        made["Instances"] = [{"InstanceType": name} for name in queue.instance_types]
    if queue.efa:
        made["Efa"] = {"Enabled": True}
    if not queue.multithreading:
        made["DisableSimultaneousMultithreading"] = True
    if queue.spot_price is not None:
        made["SpotPrice"] = queue.spot_price
    if queue.gpu_health_check:
        made["HealthChecks"] = {"Gpu": {"Enabled": True}}
    reservation = _given(
        {
            "CapacityReservationId": queue.capacity_reservation_id,
            "CapacityReservationResourceGroupArn": queue.capacity_reservation_group,
        }
    )
    return made | ({"CapacityReservationTarget": reservation} if reservation else {})


def _pool(making: Making, pool: LoginPool) -> dict[str, Any]:
    made = {
        "Name": pool.name,
        "InstanceType": pool.instance_type,
        "Count": pool.count,
        "Networking": {"SubnetIds": [pool.subnet_id]},
        "Iam": {"AdditionalIamPolicies": _policies(making)},
    }
    return made | _actions(making, "login", pool.scripts)


def _actions(
    making: Making, role: str, scripts: list[NodeScript], *, neuron: bool = False
) -> dict[str, Any]:
    """Our script comes first, and what the user wants after it."""
    steps: list[dict[str, Any]] = []
    if ours := making.node_script:
        arguments = [making.bundle, role, *(["neuron"] if neuron else [])]
        steps.append({"Script": ours, "Args": arguments})
    for script in scripts:
        step: dict[str, Any] = {"Script": script.source}
        steps.append(step | ({"Args": list(script.arguments)} if script.arguments else {}))
    return {"CustomActions": {"OnNodeConfigured": {"Sequence": steps}}} if steps else {}


def _permissions(making: Making, scripts: list[NodeScript]) -> dict[str, Any]:
    made: dict[str, Any] = {"AdditionalIamPolicies": _policies(making)}
    if access := _access(making, scripts):
        made["S3Access"] = access
    return made


def _policies(making: Making) -> list[dict[str, str]]:
    ssm = f"arn:{making.settings.partition}:{SSM_POLICY}"
    ours = [policy_arn(making)] if making.with_ours else []
    named = [ssm, *ours, *making.spec.iam_policies]
    return [{"Policy": arn} for arn in dict.fromkeys(named)]


def _access(making: Making, scripts: list[NodeScript]) -> list[dict[str, Any]]:
    """What a node reads: what the spec names, and the scripts that it runs."""
    spec = making.spec
    wanted: dict[tuple[str, str], bool] = {}
    for one in spec.s3_access:
        wanted[one.bucket, _below(one.prefix)] = one.write
    mounts = [(mount.bucket, _below(mount.prefix)) for mount in spec.s3_mounts]
    inputs = [
        (source.partition("/")[0], _below(source.partition("/")[2]))
        for source in (given.removeprefix("s3://") for given in spec.job_inputs)
    ]
    keys = [making.node_script, *(script.source for script in scripts)]
    objects = [
        (bucket, key)
        for bucket, _, key in (
            source.removeprefix("s3://").partition("/")
            for source in keys
            if source.startswith("s3://")
        )
    ]
    for place in (*mounts, *inputs, *objects):
        wanted.setdefault(place, False)
    return [
        {"BucketName": bucket, "KeyName": key, "EnableWriteAccess": write}
        for (bucket, key), write in wanted.items()
    ]


def _below(prefix: str | None) -> str:
    return f"{prefix.rstrip('/')}/*" if prefix else "*"


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}

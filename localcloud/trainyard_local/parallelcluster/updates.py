"""What may change in a cluster that is there, and what has to stand still for it.

ParallelCluster has an update policy for each key. Known here are those of queues and of the rest
that the local cloud reads.
"""

from __future__ import annotations

from typing import Any

from trainyard_local.parallelcluster.configuration import Configuration, Queue
from trainyard_local.parallelcluster.judging import BadRequest
from trainyard_local.parallelcluster.state import Cluster

Change = dict[str, Any]


def judged(cluster: Cluster, wanted: Configuration) -> list[Change]:
    """The changes. Raises BadRequest where one is refused, or nothing changes."""
    have = cluster.configuration
    changes = [*_fixed(have, wanted), *_queues(have, wanted)]
    if not changes:
        raise BadRequest("Bad Request: No changes found in your cluster configuration.")
    stopped = cluster.fleet == "STOPPED"
    refused = [
        change["parameter"]
        for change in changes
        if change["needs"] == "never" or (change["needs"] == "stop" and not stopped)
    ]
    if refused:
        raise BadRequest(
            f"Bad Request: Update failure: {refused[0]} cannot be changed while the compute fleet "
            "is running, or at all; all compute nodes must be stopped"
        )
    return [{k: v for k, v in change.items() if k != "needs"} for change in changes]


def _change(parameter: str, old: object, new: object, needs: str) -> Change:
    told = {"parameter": parameter, "currentValue": str(old), "requestedValue": str(new)}
    return {**told, "needs": needs}


def _fixed(have: Configuration, wanted: Configuration) -> list[Change]:
    pairs = {
        "HeadNode.InstanceType": (have.head_type, wanted.head_type),
        "SharedStorage": (have.storage, wanted.storage),
        "Iam.PermissionsBoundary": (have.boundary, wanted.boundary),
    }
    found = [_change(name, *pair, "never") for name, pair in pairs.items() if pair[0] != pair[1]]
    if have.slurm_settings != wanted.slurm_settings:
        name = "Scheduling.SlurmSettings.CustomSlurmSettings"
        found.append(_change(name, have.slurm_settings, wanted.slurm_settings, "stop"))
    return found


def _queues(have: Configuration, wanted: Configuration) -> list[Change]:
    old = {queue.name: queue for queue in have.queues}
    new = {queue.name: queue for queue in wanted.queues}
    found = [_change("SlurmQueues", "-", name, "") for name in new.keys() - old.keys()]
    found += [_change("SlurmQueues", name, "-", "stop") for name in old.keys() - new.keys()]
    for name in old.keys() & new.keys():
        found += _queue(old[name], new[name])
    return found


def _queue(old: Queue, new: Queue) -> list[Change]:
    found = []
    where = f"SlurmQueues[{old.name}].ComputeResources[{old.resource}]"
    if old.maximum != new.maximum:
        needs = "stop" if new.maximum < old.maximum else ""
        found.append(_change(f"{where}.MaxCount", old.maximum, new.maximum, needs))
    if old.minimum != new.minimum:
        found.append(_change(f"{where}.MinCount", old.minimum, new.minimum, "stop"))
    if old.types != new.types:
        found.append(_change(f"{where}.Instances", old.types, new.types, "stop"))
    if old.market != new.market:
        found.append(
            _change(f"SlurmQueues[{old.name}].CapacityType", old.market, new.market, "stop")
        )
    return found

"""What the head node's daemon (clustermgtd) does at each of its looks at nodes and instances."""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Mapping, Sequence

from trainyard_local.parallelcluster import events, fleet
from trainyard_local.parallelcluster.configuration import is_static
from trainyard_local.parallelcluster.node import QueueNode
from trainyard_local.parallelcluster.slurm import flags, nodes_of
from trainyard_local.parallelcluster.state import Cluster

log = logging.getLogger(__name__)

SlurmNodes = Mapping[str, dict[str, str]]
REPLACED = "Static node maintenance: unhealthy node is being replaced"
UNHEALTHY = "Scheduler health check failed"
LACKING = "Temporarily disabling node due to insufficient capacity"
_AWAY = {"POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN"}


def run(cluster: Cluster) -> None:
    """In a thread, as long as the cluster lives and its head node is on."""
    while not cluster.closing.is_set():
        head = cluster.head
        if head is not None and head.powered:
            try:
                look(cluster)
            except (subprocess.SubprocessError, OSError) as error:
                log.info("the daemon of %s: %s", cluster.name, error)
        cluster.closing.wait(cluster.settings.daemon_seconds)


def look(cluster: Cluster) -> None:
    """Once. Raises subprocess.SubprocessError, OSError."""
    # Asked before Slurm is: what boots meanwhile is still down in Slurm's answer.
    settled = [instance for instance in cluster.instances() if instance.booted]
    nodes = nodes_of(cluster.scontrol("-o", "show", "nodes"))
    if cluster.fleet in ("STOP_REQUESTED", "STOPPING", "STOPPED"):
        _stop(cluster, nodes)
        return
    if cluster.fleet in ("START_REQUESTED", "STARTING", "UNKNOWN"):
        partitions(cluster, "UP")
        cluster.fleet = "RUNNING"
    _end_powered_down(cluster, nodes)
    _count_failures(cluster, nodes)
    _dynamic(cluster, nodes)
    _static(cluster, nodes, settled)
    _orphans(cluster)


def _end_powered_down(cluster: Cluster, nodes: SlurmNodes) -> None:
    """A node that powers down gives its instance back, and its address."""
    for name, node in nodes.items():
        if not flags(node) & {"POWERED_DOWN", "POWERING_DOWN"} or node["NodeAddr"] == name:
            continue
        if is_static(name) or "ALLOCATED" in flags(node) or "MIXED" in flags(node):
            continue
        if (instance := cluster.instance_of(name)) is not None:
            cluster.terminate(instance)
        cluster.update_node(name, nodeaddr=name, nodehostname=name)


def _count_failures(cluster: Cluster, nodes: SlurmNodes) -> None:
    """Nodes whose instances ended while they booted; too many of them switch their queue off."""
    for instance in cluster.instances():
        if instance.booted:
            cluster.boot_failures.pop(instance.group, None)
    failed = [
        name
        for name, node in nodes.items()
        if node["NodeAddr"] != name
        and cluster.instance_of(name) is None
        and ("POWERING_UP" in flags(node) or node["Reason"].startswith(REPLACED))
    ]
    if not failed:
        return
    events.not_booted(cluster, failed)
    for name in failed:
        queue = cluster.configuration.queue_of(name).name
        cluster.boot_failures[queue] = cluster.boot_failures.get(queue, 0) + 1
    limit = cluster.settings.protected_failures
    off = [queue for queue, count in cluster.boot_failures.items() if count >= limit]
    if off and cluster.fleet != "PROTECTED":
        for queue in off:
            cluster.scontrol("update", f"partitionname={queue}", "state=inactive")
        cluster.fleet = "PROTECTED"


def _dynamic(cluster: Cluster, nodes: SlurmNodes) -> None:
    lacking, unhealthy = [], []
    for name, node in nodes.items():
        if is_static(name):
            continue
        away = flags(node) & _AWAY
        down = "DOWN" in flags(node) and "POWERING_DOWN" not in flags(node)
        gone = node["NodeAddr"] != name and cluster.instance_of(name) is None and not away
        if down and f"(Code:{fleet.NO_CAPACITY})" in node["Reason"]:
            lacking.append(name)
        elif down or gone:
            unhealthy.append(name)
    _without_capacity(cluster, nodes, lacking)
    if unhealthy:
        _tell_unhealthy(cluster, nodes, unhealthy)
        _end_instances(cluster, unhealthy)
        fleet.power_down(cluster, unhealthy, UNHEALTHY)


def _without_capacity(cluster: Cluster, nodes: SlurmNodes, lacking: Sequence[str]) -> None:
    """Nothing of such a queue is launched for a while; then its nodes may be asked for again."""
    moment = time.monotonic()
    queues = {cluster.configuration.queue_of(name).name for name in lacking}
    for queue in queues - cluster.without_capacity.keys():
        cluster.without_capacity[queue] = moment + cluster.settings.capacity_seconds
        code = f"(Code:{fleet.NO_CAPACITY})"
        rest = [
            name
            for name in cluster.configuration.queue(queue).dynamic()
            if name in nodes and flags(nodes[name]) == {"IDLE", "CLOUD", "POWERED_DOWN"}
        ]
        fleet.set_down(cluster, rest, f"{code}{LACKING}")
    for queue, until in list(cluster.without_capacity.items()):
        if until <= moment:
            del cluster.without_capacity[queue]
            own = set(cluster.configuration.queue(queue).dynamic())
            fleet.power_down(cluster, sorted(own & set(lacking)), "Enabling node since " + LACKING)


def _static(cluster: Cluster, nodes: SlurmNodes, settled: Sequence[QueueNode]) -> None:
    """Static nodes without an instance, or that Slurm gave up, get another instance.

    `settled`: instances that had booted before Slurm was asked for the nodes.
    """
    protected = cluster.fleet == "PROTECTED"
    unhealthy = []
    for name, node in nodes.items():
        if not is_static(name):
            continue
        instance = cluster.instance_of(name)
        booting = not any(instance is one for one in settled)
        bad = bool(flags(node) & (_AWAY | {"DOWN"})) or "DRAIN" in flags(node)
        busy = flags(node) & {"COMPLETING", "ALLOCATED", "MIXED"}
        if instance is None or (bad and not booting and not busy):
            unhealthy.append(name)
    if not unhealthy or protected:
        return
    _tell_unhealthy(cluster, nodes, [name for name in unhealthy if cluster.instance_of(name)])
    _end_instances(cluster, unhealthy)
    for name in unhealthy:
        reset = {"nodeaddr": name, "nodehostname": name}
        cluster.update_node(name, **reset, state="down", reason=REPLACED)
    for code, names in fleet.launch(cluster, unhealthy).items():
        fleet.set_down(cluster, names, f"(Code:{code})Failure when resuming nodes")
        events.launch_failed(cluster, "clustermgtd", code, names)


def _tell_unhealthy(cluster: Cluster, nodes: SlurmNodes, names: Sequence[str]) -> None:
    silent = [name for name in names if nodes[name]["Reason"].startswith("Not responding")]
    without = [name for name in names if cluster.instance_of(name) is None]
    events.counted(cluster, "node-not-responding-down-count", silent)
    events.counted(cluster, "invalid-backing-instance-count", without)


def _end_instances(cluster: Cluster, names: Sequence[str]) -> None:
    for name in names:
        if (instance := cluster.instance_of(name)) is not None:
            cluster.terminate(instance)


def _orphans(cluster: Cluster) -> None:
    """Instances of queues that no node of Slurm's has."""
    known = set(cluster.configuration.node_names())
    for instance in cluster.instances():
        if instance.role == "Compute" and instance.label not in known:
            cluster.terminate(instance)


def _stop(cluster: Cluster, nodes: SlurmNodes) -> None:
    if cluster.fleet == "STOPPED":
        return
    cluster.fleet = "STOPPING"
    partitions(cluster, "INACTIVE")
    _end_instances(cluster, list(nodes))
    fleet.power_down(cluster, list(nodes), "stopping cluster")
    cluster.fleet = "STOPPED"


def partitions(cluster: Cluster, state: str) -> None:
    """Raises subprocess.SubprocessError, OSError."""
    for queue in cluster.configuration.queues:
        cluster.scontrol("update", f"partitionname={queue.name}", f"state={state}")

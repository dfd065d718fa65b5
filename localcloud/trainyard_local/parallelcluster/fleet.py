"""Launches and ends the instances behind a cluster's nodes in Slurm, when Slurm or its daemon asks.

It is what slurm_resume and clustermgtd of ParallelCluster's share.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Sequence
from functools import partial

from trainyard_local.parallelcluster import boot
from trainyard_local.parallelcluster.configuration import Queue
from trainyard_local.parallelcluster.events import launch_failed
from trainyard_local.parallelcluster.node import QueueNode
from trainyard_local.parallelcluster.slurm import RESUME, Request
from trainyard_local.parallelcluster.state import Cluster
from trainyard_local.slurm import loopback

log = logging.getLogger(__name__)

#: Between two looks at what Slurm asked for.
LOOK_SECONDS = 0.1
NO_CAPACITY = "InsufficientInstanceCapacity"


def serve_slurm(cluster: Cluster) -> None:
    """In a thread: do what ResumeProgram is called for.

    SuspendProgram of ParallelCluster's does nothing: its daemon ends instances of nodes that are
    powering down.
    """
    while not cluster.closing.wait(LOOK_SECONDS):
        for request in cluster.slurm.requests():
            try:
                _serve(cluster, request)
            except (subprocess.SubprocessError, OSError) as error:
                log.warning("nodes %s of %s: %s", request.names, cluster.name, error)


def _serve(cluster: Cluster, request: Request) -> None:
    names = cluster.scontrol("show", "hostnames", request.names).split()
    if request.word == RESUME:
        failed = launch(cluster, names, powered_up=True)
        for code, nodes in failed.items():
            set_down(cluster, nodes, f"(Code:{code})Failure when resuming nodes")
            launch_failed(cluster, "slurm-resume", code, nodes)


def launch(
    cluster: Cluster, names: Sequence[str], *, powered_up: bool = False
) -> dict[str, list[str]]:
    """An instance for each of these nodes. Returns those that could not be had, by EC2's code.

    `powered_up`: Slurm asked for them, for a job that it has given them already.
    """
    failed: dict[str, list[str]] = {}
    for name in names:
        queue = cluster.configuration.queue_of(name)
        kind = next(filter(cluster.settings.capacity.there, queue.types), None)
        if kind is None:
            failed.setdefault(NO_CAPACITY, []).append(name)
        else:
            _launch_one(cluster, queue, name, kind, powered_up=powered_up)
    return failed


def _launch_one(cluster: Cluster, queue: Queue, name: str, kind: str, *, powered_up: bool) -> None:
    if (old := cluster.instance_of(name)) is not None:
        cluster.terminate(old)
    node = cluster.new_instance(queue.name, name, kind, spot=queue.spot)
    node.powered_up = powered_up
    try:
        cluster.update_node(name, nodeaddr=loopback.ADDRESS, nodehostname=node.host_name)
    except (subprocess.SubprocessError, OSError):
        cluster.terminate(node)
        raise
    cluster.in_background(partial(_boot, cluster, node))


def _boot(cluster: Cluster, node: QueueNode) -> None:
    """A node that does not boot ends itself, as ParallelCluster's do."""
    try:
        boot.worker(cluster, node)
    except boot.BootFailed as failed:
        log.info("%s of %s did not boot: %s", node.label, cluster.name, failed)
    except Exception as error:
        if not cluster.closing.is_set():
            log.warning("%s of %s did not boot", node.label, cluster.name, exc_info=error)
    if not node.booted and not cluster.closing.is_set():
        cluster.terminate(node)


def set_down(cluster: Cluster, names: Sequence[str], reason: str) -> None:
    for name in names:
        cluster.update_node(name, state="down", reason=reason)


def power_down(cluster: Cluster, names: Sequence[str], reason: str) -> None:
    """Forget the nodes' instances, and let Slurm power them down."""
    for name in names:
        reset = {"nodeaddr": name, "nodehostname": name}
        cluster.update_node(name, **reset, state="power_down_force", reason=reason)

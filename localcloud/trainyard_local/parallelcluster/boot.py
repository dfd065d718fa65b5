"""Boots the instances of a cluster: the image's own part, and OnNodeConfigured in its midst."""

from __future__ import annotations

import json
import logging
import subprocess
import time
from functools import partial
from pathlib import Path

from trainyard_local.nodes import processes as node_processes
from trainyard_local.parallelcluster import roles
from trainyard_local.parallelcluster.configuration import HEAD_NODE, Script, is_static
from trainyard_local.parallelcluster.node import QueueNode
from trainyard_local.parallelcluster.slurm import await_daemon, flags, nodes_of
from trainyard_local.parallelcluster.state import Cluster, now

log = logging.getLogger(__name__)

#: ParallelCluster gives a node's configuration half an hour by default; a script of ours that takes
#: so long hangs.
SCRIPT_SECONDS = 1500.0
#: A slurmd needs a moment to register. A node is looked at this often until it has.
REGISTERS_SECONDS, RESUME_SECONDS = 60.0, 0.5
#: Slurm hears no slurmd of a node in these states.
LEAVING = {"POWER_DOWN", "POWERING_DOWN"}
#: A node with one of these has no slurmd that Slurm knows. If it were taken back now, Slurm would
#: give it a job, and power it up once more for that.
UNKNOWN = {*LEAVING, "POWERED_DOWN", "NOT_RESPONDING"}
ACTION = "OnNodeConfigured"


class BootFailed(Exception):
    """A node did not boot; the message is the one that ParallelCluster gives."""


def head_node(cluster: Cluster, node: QueueNode) -> None:
    """Raises BootFailed."""
    _lay_out(cluster, node)
    node.start_slurm()
    _await_slurm(cluster, node)
    _configured(cluster, node, cluster.configuration.head_scripts)
    # ParallelCluster's Slurm starts slurmctld anew when it reads its configuration again. Debian's
    # does not, and never calls a program that was not there when it started.
    pids = [process.pid for process in node.processes() if process.name == "slurmctld"]
    node_processes.end_pids(pids)
    _await_slurm(cluster, node)


def _await_slurm(cluster: Cluster, node: QueueNode) -> None:
    try:
        await_daemon(cluster.slurm, node.slurm_conf)
    except RuntimeError as error:
        raise BootFailed(str(error)) from error


def updated(cluster: Cluster, node: QueueNode) -> None:
    """What the head node runs at the end of an update. Raises BootFailed."""
    _configured(cluster, node, cluster.configuration.updated_scripts, "OnNodeUpdated")


def worker(cluster: Cluster, node: QueueNode) -> None:
    """Slurm gets the node when everything else is done. Raises BootFailed."""
    _lay_out(cluster, node)
    _configured(cluster, node, cluster.configuration.queue(node.group).scripts)
    if cluster.closing.is_set() or _gone(cluster, node):
        return
    if is_static(node.label):
        _await_powered_down(cluster, node)
    node.start_slurm()
    if is_static(node.label):
        _resume(cluster, node)
    node.booted = True


def _await_powered_down(cluster: Cluster, node: QueueNode) -> None:
    """Until Slurm has taken leave of the instance before.

    On AWS a boot takes longer than that. Here it takes a second, and Slurm forgets a slurmd that
    registers before.
    """
    deadline = time.monotonic() + cluster.settings.suspend_seconds + REGISTERS_SECONDS
    while time.monotonic() < deadline and not _gone(cluster, node):
        if not _states(cluster, node) & LEAVING or cluster.closing.wait(RESUME_SECONDS):
            return


def _resume(cluster: Cluster, node: QueueNode) -> None:
    """A static node was set down while it had no instance, and nothing else takes it back."""
    deadline = time.monotonic() + REGISTERS_SECONDS
    while time.monotonic() < deadline and not cluster.closing.wait(RESUME_SECONDS):
        if _gone(cluster, node):
            return
        states = _states(cluster, node)
        if "DOWN" in states and not states & UNKNOWN:
            try:
                cluster.update_node(node.label, state="resume", reason="Node start up")
            except (subprocess.SubprocessError, OSError) as error:
                log.info("%s is not taken back: %s", node.label, error)
        elif not states & {"DOWN", *UNKNOWN}:
            return


def _states(cluster: Cluster, node: QueueNode) -> set[str]:
    """Words of the node's state in Slurm; those of a node that is away where Slurm is silent."""
    try:
        answer = cluster.scontrol("-o", "show", "node", node.label)
    except (subprocess.SubprocessError, OSError) as error:
        log.info("Slurm does not tell of %s: %s", node.label, error)
        return UNKNOWN
    return flags(nodes_of(answer)[node.label])


def _gone(cluster: Cluster, node: QueueNode) -> bool:
    """Whether the instance was ended meanwhile: it starts nothing then, and takes no name."""
    return cluster.instance_of(node.label) is not node


def login_node(cluster: Cluster, node: QueueNode) -> None:
    """Raises BootFailed."""
    _lay_out(cluster, node)
    pool = next(pool for pool in cluster.configuration.pools if pool.name == node.group)
    _configured(cluster, node, pool.scripts)
    node.booted = True


def role_name(cluster: Cluster, group: str) -> str:
    return f"{cluster.name}-{'RoleHeadNode' if group == HEAD_NODE else group}-{cluster.id}"


def _lay_out(cluster: Cluster, node: QueueNode) -> None:
    """The disk of a fresh instance. Raises BootFailed."""
    cloud = cluster.cloud
    permissions, boundary = cluster.permissions(node.group), cluster.configuration.boundary
    role = roles.make(cloud, role_name(cluster, node.group), permissions, boundary)
    aws = {
        "AWS_ENDPOINT_URL": cloud.endpoint,
        "AWS_REGION": cloud.region,
        "AWS_DEFAULT_REGION": cloud.region,
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{cloud.endpoint}/_metadata/{node.instance_id}",
    }
    head = cluster.head
    if head is None:
        raise BootFailed("there is no head node")
    keys = cloud.access.environment(role, node.instance_id)
    try:
        node.lay_out_image(cluster.slurm, cluster.shared, aws | keys, cluster.arn, head.address)
    except OSError as error:
        raise BootFailed(f"The instance could not be prepared: {error}") from error
    node.powered, node.status = True, "running"


def _configured(
    cluster: Cluster, node: QueueNode, scripts: tuple[Script, ...], action: str = ACTION
) -> None:
    """Run each step of the action. What it prints goes to CloudWatch. Raises BootFailed."""
    stream = "cfn-init" if node.role == "Controller" else "cloud-init-output"
    say = partial(cluster.log, node, stream)
    for step, script in enumerate(scripts, start=1):
        problem = _run(cluster, node, script, step)
        if cluster.closing.is_set():
            return
        if problem:
            words = f"Failed to {problem} {action} script {step} {script.source}"
            say([f"fetch_and_run - {words}"])
            if node.role == "Compute":
                _tell_error(cluster, node, step, words)
            raise BootFailed(words)


def _run(cluster: Cluster, node: QueueNode, script: Script, step: int) -> str:
    """What could not be done, or ''."""
    bucket, _, key = script.source.removeprefix("s3://").partition("/")
    prefix, _, name = key.rpartition("/")
    try:
        found = cluster.cloud.read_prefix(bucket, f"{prefix}/" if prefix else "")
    except FileNotFoundError:
        found = {}
    if name not in found:
        return "download"
    stream = "cfn-init" if node.role == "Controller" else "cloud-init-output"
    say = partial(cluster.log, node, stream)
    path = Path(node.home, f"custom-action-{step}")
    path.write_bytes(found[name])
    path.chmod(0o755)
    argv = [str(path), *script.arguments]
    problem, rest = node.run_to_end(argv, node.home, SCRIPT_SECONDS, say)
    say(rest)
    return "execute" if problem else ""


def _tell_error(cluster: Cluster, node: QueueNode, step: int, words: str) -> None:
    event = {
        "datetime": now().isoformat(timespec="milliseconds"),
        "version": 0,
        "scheduler": "slurm",
        "cluster-name": cluster.name,
        "node-role": "ComputeFleet",
        "component": "custom-action",
        "level": "ERROR",
        "instance-id": node.instance_id,
        "compute": {
            "name": node.label,
            "instance-id": node.instance_id,
            "instance-type": node.instance_type,
            "availability-zone": f"{cluster.cloud.region}a",
            "address": node.address,
            "hostname": f"{node.host_name}.ec2.internal",
            "queue-name": node.group,
            "compute-resource": cluster.configuration.queue(node.group).resource,
            "node-type": "static" if is_static(node.label) else "dynamic",
        },
        "event-type": "custom-action-error",
        "message": words,
        "detail": {"action": ACTION, "step": step, "stage": "executing", "error": None},
    }
    cluster.log(node, "bootstrap_error_msg", [json.dumps(event)])

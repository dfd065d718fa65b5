"""Brings up the instances of a local HyperPod cluster.

It runs lifecycle scripts, retries, and knows the two ways of provisioning.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import urlsplit

from trainyard_local.hyperpod.events import note
from trainyard_local.hyperpod.members import ChangingCluster
from trainyard_local.hyperpod.views import resource_config
from trainyard_local.nodes.node import LifecycleFailed, Node

log = logging.getLogger(__name__)

#: With the quirk `scripts-come-late`.
SCRIPTS_LATE_SECONDS = 10.0


class NotToBeHad(LifecycleFailed):
    """There is no instance of the node's type."""


def create_continuously(cluster: ChangingCluster) -> None:
    """The controller, then login nodes, then InService.

    Workers come later, and are retried without end.
    """
    first = [node for node in cluster.members() if cluster.role(node.group) != "Compute"]
    for role in ("Controller", "Login"):
        for node, failed in launch_all(
            cluster, [node for node in first if cluster.role(node.group) == role]
        ):
            if failed and not cluster.closing.is_set():
                cluster.fail(provisioning_failure(node, failed))
                return
    cluster.set_status("InService")
    note(cluster, "Cluster", f"Cluster {cluster.name} creation completed successfully")
    for node in cluster.members():
        if node not in first:
            cluster.in_background(partial(launch_until_up, cluster, node))


def create_all_at_once(cluster: ChangingCluster) -> None:
    """The controller, then the rest; the first failure rolls everything back."""
    first = [node for node in cluster.members() if cluster.role(node.group) == "Controller"]
    rest = [node for node in cluster.members() if node not in first]
    for stage in (first, rest):
        for node, failed in launch_all(cluster, stage):
            if failed and not cluster.closing.is_set():
                cluster.set_status("RollingBack")
                cluster.release_all()
                cluster.fail(provisioning_failure(node, failed))
                return
    cluster.set_status("InService")


def launch_all(
    cluster: ChangingCluster, nodes: list[Node]
) -> Iterator[tuple[Node, LifecycleFailed | None]]:
    with ThreadPoolExecutor(max_workers=8) as pool:
        yield from zip(nodes, pool.map(lambda node: launch(cluster, node), nodes), strict=True)


def launch_until_up(cluster: ChangingCluster, node: Node) -> None:
    """A failed instance is given up and another one takes its place, as often as it takes."""
    while launch(cluster, node) is not None:
        if (
            cluster.closing.wait(cluster.settings.retry_seconds)
            or node.instance_id not in cluster.nodes
        ):
            return
        node = cluster.successor(node)
    cluster.rejoin(node)


def launch(cluster: ChangingCluster, node: Node) -> LifecycleFailed | None:
    """Prepare one instance and run its lifecycle scripts.

    Leaves it Running, or in Failure and switched off.
    """
    if cluster.closing.is_set():
        return None
    if not cluster.settings.capacity.there(node.instance_type):
        return _not_to_be_had(cluster, node)
    try:
        _run_lifecycle(cluster, node)
    except LifecycleFailed as failed:
        return _give_up(cluster, node, failed)
    except Exception as error:
        if not cluster.closing.is_set():
            log.warning(
                "node %s of cluster %s could not be prepared",
                node.instance_id,
                cluster.name,
                exc_info=error,
            )
        reason = f"The instance could not be prepared: {type(error).__name__}: {error}"
        return _give_up(cluster, node, LifecycleFailed([f"[SageMaker] {reason}"], reason))
    _log(cluster, node, ["[SageMaker] The lifecycle scripts succeeded."])
    node.status, node.message = "Running", ""
    note(
        cluster,
        "Instance",
        f"EC2 Instance {node.instance_id} successfully provisioned in instance group {node.group}",
        node,
    )
    return None


def _give_up(
    cluster: ChangingCluster, node: Node, failed: LifecycleFailed
) -> LifecycleFailed | None:
    """Leave the instance in Failure and switched off; None when the cluster is ending anyway."""
    _log(cluster, node, failed.lines)
    if cluster.closing.is_set():
        return None
    node.status, node.message = "Failure", str(failed)
    try:
        node.kill()
    except RuntimeError as error:  # something survives SIGKILL
        log.warning("node %s of cluster %s: %s", node.instance_id, cluster.name, error)
    note(
        cluster,
        "Instance",
        f"Instance lifecycle script execution for EC2 Instance {node.instance_id} has failed",
        node,
        "Error",
    )
    note(
        cluster,
        "Instance",
        f"Failed to provision EC2 Instance {node.instance_id} in instance group {node.group}",
        node,
        "Error",
    )
    return failed


def _not_to_be_had(cluster: ChangingCluster, node: Node) -> LifecycleFailed:
    """There is no instance of its type: AWS's words, in the event's metadata only."""
    reason = (
        f"We currently do not have sufficient capacity to launch new {node.instance_type} "
        "instances. Please try again."
    )
    node.status, node.message = "Failure", reason
    what = f"Failed to provision EC2 Instance {node.instance_id} in instance group {node.group}"
    note(cluster, "Instance", what, node, "Error", reason)
    return NotToBeHad([reason], reason)


def _run_lifecycle(cluster: ChangingCluster, node: Node) -> None:
    group, cloud = cluster.groups[node.group], cluster.cloud
    credentials = cloud.access.environment(group["ExecutionRole"], node.instance_id)
    aws = {
        "AWS_ENDPOINT_URL": cloud.endpoint,
        "AWS_REGION": cloud.region,
        "AWS_DEFAULT_REGION": cloud.region,
    }
    node.prepare(cluster.slurm, resource_config(cluster, node), cluster.shared, aws | credentials)
    if "sessions-have-no-sudo" in cloud.quirks:
        node.forbid_sudo()
    config = group.get("LifeCycleConfig") or {}
    files = lifecycle_files(cluster, node.group)
    node.powered = True
    _log(cluster, node, ["[SageMaker] Downloading lifecycle scripts"])
    for entry in filter(config.get, ("OnCreate", "OnInitComplete")):
        cluster.kind.set_up(cluster, node, entry)
        if "scripts-come-late" in cloud.quirks:
            cluster.closing.wait(SCRIPTS_LATE_SECONDS)
        node.run_lifecycle(
            files,
            config[entry],
            cluster.settings.lifecycle_timeout_seconds,
            lambda lines: _log(cluster, node, lines),
        )


def lifecycle_files(cluster: ChangingCluster, group: str) -> dict[str, bytes]:
    """What lies under the group's SourceS3Uri now, by relative key."""
    uri = (cluster.groups[group].get("LifeCycleConfig") or {}).get("SourceS3Uri")
    if not uri:
        return {}
    parts = urlsplit(uri)
    prefix = parts.path.strip("/")
    return cluster.cloud.read_prefix(parts.netloc, f"{prefix}/" if prefix else "")


def _log(cluster: ChangingCluster, node: Node, lines: list[str]) -> None:
    stream = f"LifecycleConfig/{node.group}/{node.instance_id}"
    if "lifecycle-log-is-another-stream" in cluster.cloud.quirks:
        stream = f"{node.group}/{node.instance_id}/LifecycleConfig"
    if lines:
        cluster.cloud.logs.write(cluster.log_group, stream, lines)


def provisioning_failure(node: Node, failed: LifecycleFailed) -> str:
    """HyperPod's FailureMessage for an instance that could not be had, or whose scripts failed."""
    if isinstance(failed, NotToBeHad):
        return (
            "We currently do not have sufficient capacity for the requested instance type(s). "
            "Please try again."
        )
    return f'Instance {node.instance_id} failed to provision with the following error: "{failed}"'

"""Breaks nodes, agents, training processes and checkpoints on purpose.

`trainyard fault` and the tests use it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainyard_local.hyperpod.cluster import LocalCluster as HyperPodCluster
from trainyard_local.hyperpod.events import report_health
from trainyard_local.hyperpod.recovery import find_unhealthy
from trainyard_local.hyperpod.service import of
from trainyard_local.local_cloud import LocalCloud
from trainyard_local.machines.faults import KINDS as MACHINE_FAULTS
from trainyard_local.nodes import processes as node_processes
from trainyard_local.nodes.cluster import ClusterOfNodes
from trainyard_local.nodes.node import Node
from trainyard_local.nodes.processes import Process
from trainyard_local.parallelcluster import spot
from trainyard_local.parallelcluster.cluster import LocalCluster as QueueCluster
from trainyard_local.parallelcluster.service import all_of
from trainyard_local.parallelcluster.service import of as queue_clusters_of
from trainyard_local.sagemaker.capacity import Capacity
from trainyard_local.sessions.service import CUT_MOMENTS, CUT_WAYS
from trainyard_local.training_jobs import faults as job_faults
from trainyard_local.training_jobs.service import of as jobs_of

#: No fault that passes by itself lasts longer.
MAX_SECONDS = 3600
RUN_ID = re.compile(r"run-[0-9a-z]+")
CHECKPOINT = re.compile(r"step-(\d{12})-attempt-(\d+)")


class FaultError(ValueError):
    """The fault cannot be injected; the message says why and what would be right."""

    status, code = 400, "invalid-request"


class NotThere(FaultError):
    """The named cluster, node, run or checkpoint is not there."""

    status, code = 404, "not-found"


class NotNow(FaultError):
    """Everything named is there, but not in the state that the fault wants."""

    status, code = 409, "conflict"


#: Befall clusters, too; the request was judged by then.
CAPACITY: Mapping[str, Callable[[Capacity, Mapping[str, Any]], None]] = {
    "no-capacity": lambda found, given: found.lack(given["instanceType"], given.get("seconds")),
    "restore-capacity": lambda found, given: found.restore(given["instanceType"]),
}


def apply(cloud: LocalCloud, request: Mapping[str, Any]) -> dict[str, Any]:
    """Inject one fault: {"kind", "cluster", "node"?, "run"?, "seconds"?}.

    Those of training jobs have "job" and "host", or "instanceType", in the place of "cluster".
    Returns what was done. Raises FaultError.
    """
    of_a_node = request.get("kind") == "interrupt-spot" and request.get("cluster")
    if request.get("kind") in job_faults.KINDS and not of_a_node:
        return _apply_to_jobs(cloud, request)
    kind, cluster = request.get("kind"), _cluster(cloud, request)
    fault = FAULTS.get(str(kind), befall)
    return {"kind": kind, **fault(cluster, request)}


def _apply_to_jobs(cloud: LocalCloud, request: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(request["kind"])
    try:
        done = job_faults.KINDS[kind](jobs_of(cloud), request)
        if kind in CAPACITY:
            for clusters in (of(cloud), queue_clusters_of(cloud)):
                CAPACITY[kind](clusters.settings.capacity, request)
        return {"kind": kind, **done}
    except job_faults.NoSuchPart as error:
        raise NotThere(str(error)) from None
    except job_faults.NotAtThisTime as error:
        raise NotNow(str(error)) from None
    except job_faults.NotUnderstood as error:
        raise FaultError(str(error)) from None


def status(cloud: LocalCloud) -> dict[str, Any]:
    """Clusters, nodes and process ids of the local cloud."""
    return {"clusters": [_cluster_status(cluster) for cluster in _clusters(cloud)]}


def _clusters(cloud: LocalCloud) -> list[ClusterOfNodes]:
    with of(cloud).lock:
        return [*of(cloud).clusters.values(), *all_of(cloud)]


def _cluster_status(cluster: ClusterOfNodes) -> dict[str, Any]:
    nodes = [
        {
            "instanceId": node.instance_id,
            "name": node.name,
            "address": node.address,
            "group": node.group,
            "role": cluster.role(node.group),
            "status": node.status,
            "on": node.powered,
            "pids": sorted(process.pid for process in node.processes()),
        }
        for node in cluster.members()
    ]
    return {
        "name": cluster.name,
        "id": cluster.id,
        "arn": cluster.arn,
        "status": cluster.status,
        "nodes": nodes,
    }


def _cluster(cloud: LocalCloud, request: Mapping[str, Any]) -> ClusterOfNodes:
    clusters = _clusters(cloud)
    wanted = request.get("cluster")
    if not wanted and len(clusters) == 1:
        return clusters[0]
    for cluster in clusters:
        if wanted in (cluster.name, cluster.id, cluster.arn):
            return cluster
    known = ", ".join(cluster.name for cluster in clusters) or "none"
    jobs = ", ".join(job.name for job in jobs_of(cloud).all() if not job.ended)
    or_jobs = f"; of training jobs use kill-host or kill-host-process, for {jobs}" if jobs else ""
    raise NotThere(
        f"cluster: '{wanted}' is no cluster with nodes of this local cloud; there is: "
        f"{known}{or_jobs}"
    )


def _node(cluster: ClusterOfNodes, request: Mapping[str, Any]) -> Node:
    wanted = request.get("node")
    for node in cluster.members():
        if wanted in (node.name, node.instance_id, node.address):
            return node
    known = ", ".join(f"{node.name} ({node.instance_id})" for node in cluster.members())
    raise NotThere(f"node: '{wanted}' is not a node of cluster {cluster.name}; there is: {known}")


def _working_node(cluster: ClusterOfNodes, request: Mapping[str, Any]) -> Node:
    """The named node, else the first worker on which a job runs."""
    if request.get("node"):
        return _node(cluster, request)
    for node in cluster.members():
        if _job_processes(node, request.get("run")):
            return node
    _run_directory(cluster, request.get("run"))
    job = f"no job of {request['run']}" if request.get("run") else "no job"
    raise NotNow(
        f"node: {job} runs on cluster {cluster.name} now; wait until it trains, or name the node"
    )


def _run_directory(cluster: ClusterOfNodes, run: Any = None) -> Path:
    """Where that run, or all of them, keep their files.

    Raises NotThere for a run that never came to this cluster.
    """
    runs = cluster.shared / "trainyard" / "runs"
    if not run:
        return runs
    if not RUN_ID.fullmatch(str(run)) or not (runs / str(run)).is_dir():
        raise NotThere(
            f"run: '{run}' never trained on cluster {cluster.name}; "
            "list runs with: trainyard run ls"
        )
    return runs / str(run)


def _job_processes(node: Node, run: Any = None) -> list[Process]:
    return [
        process
        for process in node.processes()
        if process.environment.get("SLURMD_NODENAME") == node.name
        and run in (None, process.environment.get("TRAINYARD_RUN_ID"))
    ]


def kill_node(cluster: ClusterOfNodes, request: Mapping[str, Any]) -> dict[str, Any]:
    node = _working_node(cluster, request)
    return {"node": node.name, "instanceId": node.instance_id, "killed": cluster.power_cut(node)}


def befall(cluster: ClusterOfNodes, request: Mapping[str, Any]) -> dict[str, Any]:
    """A fault that the node's own kind offers (nodes.Node.faults).

    With "seconds" it passes by itself, else at heal-node.
    """
    kind, seconds = str(request.get("kind")), _seconds(request)
    kinds = sorted({kind for node in cluster.members() for kind in node.faults()})
    if kind in MACHINE_FAULTS and kind not in kinds:
        where = "start the local cloud with: trainyard local up --nodes machines"
        raise FaultError(
            f"kind: '{kind}' befalls links, and nodes that are processes have none of their own; "
            f"{where}"
        )
    if kind not in kinds:
        raise FaultError(
            f"kind: '{kind}' is unknown on these nodes; use one of {', '.join([*FAULTS, *kinds])}"
        )
    node = _working_node(cluster, request)
    if not node.powered:
        raise NotNow(f"node: {node.name} is switched off; reboot or replace it first")
    try:
        done = node.faults()[kind].begin(request)
    except ValueError as error:
        raise FaultError(str(error)) from None
    cluster.notice_later(node)
    if seconds is not None:
        cluster.in_background(lambda: _pass(cluster, node, kind, seconds))
    return {"node": node.name, "instanceId": node.instance_id, **done}


def _seconds(request: Mapping[str, Any]) -> float | None:
    seconds = request.get("seconds")
    if seconds is None:
        return None
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, (int, float))
        or not 0 < seconds <= MAX_SECONDS
    ):
        raise FaultError(
            f"seconds: '{seconds}' is no number over 0 and up to {MAX_SECONDS}; "
            "leave it out for a fault that stays"
        )
    return float(seconds)


def _pass(cluster: ClusterOfNodes, node: Node, kind: str, seconds: float) -> None:
    cluster.closing.wait(seconds)
    if not cluster.closing.is_set() and node.powered:
        node.faults()[kind].end()
        cluster.healed(node)


def heal_node(cluster: ClusterOfNodes, request: Mapping[str, Any]) -> dict[str, Any]:
    """End every fault of the node that can pass."""
    node = _node(cluster, request)
    for fault in node.faults().values():
        fault.end()
    cluster.healed(node)
    return {"node": node.name, "instanceId": node.instance_id}


def stop_agent(cluster: ClusterOfNodes, request: Mapping[str, Any]) -> dict[str, Any]:
    """SIGKILL the agent and what would start it again; everything else on the node goes on."""
    node = _working_node(cluster, request)
    return {"node": node.name, "instanceId": node.instance_id, "killed": node.stop_agent()}


def start_agent(cluster: ClusterOfNodes, request: Mapping[str, Any]) -> dict[str, Any]:
    node = _node(cluster, request)
    if not node.powered:
        raise NotNow(f"node: {node.name} is switched off; reboot or replace it first")
    node.start_agent()
    return {"node": node.name, "instanceId": node.instance_id}


def kill_process(cluster: ClusterOfNodes, request: Mapping[str, Any]) -> dict[str, Any]:
    """SIGKILL one training process.

    It is a rank that torchrun started (LOCAL_RANK) or forked (its name), else the job's innermost
    process.
    """
    node = _working_node(cluster, request)
    jobs = _job_processes(node, request.get("run"))
    if not jobs:
        _run_directory(cluster, request.get("run"))
        raise NotNow(
            f"run: no process of {request.get('run') or 'any run'} runs on {node.name} now; "
            "leave out the node, or wait"
        )
    victim = node_processes.worker_of(jobs)
    node_processes.kill_pids([victim.pid])
    return {
        "node": node.name,
        "instanceId": node.instance_id,
        "pid": victim.pid,
        "process": victim.name,
    }


def corrupt_checkpoint(cluster: ClusterOfNodes, request: Mapping[str, Any]) -> dict[str, Any]:
    """Flip bytes in the middle of the newest checkpoint's largest file.

    With "how": "truncate", cut it in half.
    """
    newest = _newest_checkpoint(cluster, request.get("run"))
    files = [path for path in newest.rglob("*") if path.is_file() and path.name != "manifest.json"]
    if not files:
        raise NotThere(f"run: checkpoint {newest.name} has no files")
    victim = max(files, key=lambda path: path.stat().st_size)
    if request.get("how") == "truncate":
        os.truncate(victim, victim.stat().st_size // 2)
    else:
        _flip(victim)
    return {
        "checkpoint": str(newest.relative_to(cluster.shared)),
        "file": victim.name,
        "step": int(newest.name.split("-")[1]),
    }


def _newest_checkpoint(cluster: ClusterOfNodes, run: Any) -> Path:
    """Of the run, else of those that train on the cluster now, else of all on its filesystem."""
    runs = _run_directory(cluster)
    found = [
        path
        for path in _run_directory(cluster, run).rglob("step-*")
        if path.is_dir() and CHECKPOINT.fullmatch(path.name)
    ]
    working = {
        str(owner)
        for node in cluster.members()
        for process in _job_processes(node)
        if (owner := process.environment.get("TRAINYARD_RUN_ID"))
    }
    if not run and working:
        found = [path for path in found if path.relative_to(runs).parts[0] in working]
    if not found:
        which = run or ", ".join(sorted(working)) or "no run"
        raise NotThere(
            f"run: {which} has no checkpoint on cluster {cluster.name} yet; wait for the first one"
        )
    # A later run comes before an earlier one; then the later step and attempt.
    return max(found, key=lambda path: (path.relative_to(runs).parts[0], path.name))


def _flip(path: Path) -> None:
    size = path.stat().st_size
    with open(path, "r+b") as file:
        file.seek(size // 2)
        old = file.read(16)
        file.seek(size // 2)
        file.write(bytes(byte ^ 0xFF for byte in old))


def node_health(cluster: ClusterOfNodes, request: Mapping[str, Any]) -> dict[str, Any]:
    """HyperPod's health monitor found a broken accelerator.

    It sends its event. Where NodeRecovery is Automatic, HyperPod also acts on it.
    """
    node = _node(cluster, request)
    if not isinstance(cluster, HyperPodCluster):
        raise FaultError("kind: 'node-health' is HyperPod's; use another kind on this cluster")
    healthy = bool(request.get("healthy"))
    reason = request.get("reason")
    action = "None" if healthy else str(request.get("action", "Replace"))
    report_health(cluster, node, "Healthy" if healthy else "Unhealthy", reason, action)
    find_unhealthy(cluster, node, action)
    return {"node": node.name, "instanceId": node.instance_id}


def cut_session(cluster: ClusterOfNodes, request: Mapping[str, Any]) -> dict[str, Any]:
    """End the data channel of the cluster's next Session Manager sessions, as networks do.

    {"when", "how", "times"?}
    """
    when, how, times = str(request.get("when")), str(request.get("how")), request.get("times", 1)
    if when not in CUT_MOMENTS:
        raise FaultError(f"when: '{when}' is unknown; use one of {', '.join(CUT_MOMENTS)}")
    if how not in CUT_WAYS:
        raise FaultError(f"how: '{how}' is unknown; use one of {', '.join(CUT_WAYS)}")
    if not isinstance(times, int) or not 0 < times < 1000:
        raise FaultError("times: a whole number of sessions from 1 to 999")
    cluster.session_cuts.extend([(when, how)] * times)
    return {"when": when, "how": how, "sessions": len(cluster.session_cuts)}


def interrupt_spot(cluster: ClusterOfNodes, request: Mapping[str, Any]) -> dict[str, Any]:
    """EC2 takes a spot instance back: its metadata and an event say so, and then it is gone."""
    if not isinstance(cluster, QueueCluster):
        raise FaultError("kind: 'interrupt-spot' needs a queue of spot instances")
    node = _working_node(cluster, request)
    try:
        at = spot.interrupt(cluster, node, _seconds(request))
    except ValueError as error:
        raise NotNow(str(error)) from None
    return {"node": node.name, "instanceId": node.instance_id, "at": at}


FAULTS: dict[str, Callable[[ClusterOfNodes, Mapping[str, Any]], dict[str, Any]]] = {
    "kill-node": kill_node,
    "heal-node": heal_node,
    "stop-agent": stop_agent,
    "start-agent": start_agent,
    "kill-process": kill_process,
    "corrupt-checkpoint": corrupt_checkpoint,
    "node-health": node_health,
    "cut-session": cut_session,
    "interrupt-spot": interrupt_spot,
}

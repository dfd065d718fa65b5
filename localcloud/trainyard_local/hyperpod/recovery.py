"""HyperPod's own recovery of nodes, which a node's reason in Slurm or the node's health starts.

AWS's pages: a node whose reason is exactly `Action:Reboot` or `Action:Replace` is rebooted or
replaced once no job is left on it. With NodeRecovery Automatic, HyperPod's agent sets that reason
itself on a node that it finds unhealthy. The controller is never repaired so.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping

from trainyard_local.hyperpod.state import Cluster
from trainyard_local.nodes.node import Node

#: Between two looks at whether slurmctld saved another state of its nodes. It does so within
#: seconds of a change.
LOOK_SECONDS = 1.0
_SAVED = "var/spool/slurmctld/node_state"
_ASKED = re.compile(
    r"^NodeName=(\S+) .*?\bState=(\S+) .*?\bReason=Action:(Reboot|Replace)(?: \[| *$)"
)
_BUSY = re.compile(r"ALLOCATED|MIXED|COMPLETING")

Repairs = Mapping[str, Callable[[Node], None]]
"""By what a reason asks for, what begins it."""


def automatic(cluster: Cluster) -> bool:
    return str(cluster.request.get("NodeRecovery", "Automatic")) == "Automatic"


def find_unhealthy(cluster: Cluster, node: Node, action: str, *, state: str = "drain") -> None:
    """The health agent found the node in need of an action.

    Jobs on a node that is drained go on. A node that does not answer is down.
    """
    if (
        automatic(cluster)
        and action in ("Reboot", "Replace")
        and cluster.role(node.group) == "Compute"
    ):
        _scontrol(
            cluster, "update", f"nodename={node.name}", f"state={state}", f"reason=Action:{action}"
        )


def watch(cluster: Cluster, repairs: Repairs) -> None:
    """In a thread, as long as the cluster lives."""
    seen, begun = 0, dict[str, str]()
    while not cluster.closing.wait(LOOK_SECONDS):
        saved = _saved(cluster)
        if saved == seen and not begun:
            continue
        answer = _scontrol(cluster, "-o", "show", "nodes")
        if answer is None:
            continue
        asked = {
            name: (state, action)
            for line in answer.splitlines()
            for name, state, action in _ASKED.findall(line)
        }
        begun = {
            name: action for name, action in begun.items() if asked.get(name, ("", ""))[1] == action
        }
        busy = {name for name, (state, _) in asked.items() if _BUSY.search(state)}
        wanted = asked.keys() - begun.keys() - busy
        begun |= {
            name: asked[name][1]
            for name in wanted
            if repair(cluster, repairs, name, asked[name][1])
        }
        # The end of a job on a drained node, or of another repair, need not be saved: look again.
        seen = -1 if busy or wanted - begun.keys() else saved


def repair(cluster: Cluster, repairs: Repairs, name: str, action: str) -> bool:
    """Begin what the node's reason asks for.

    False while the node, or its cluster, is being changed already.
    """
    with cluster.lock:
        node = next(
            (
                node
                for node in cluster.members()
                if node.name == name and cluster.role(node.group) == "Compute"
            ),
            None,
        )
        if node is None:
            return True  # nobody repairs a controller
        if cluster.status != "InService" or node.status not in ("Running", "Failure"):
            return False
        repairs[action](node)
        return True


def _saved(cluster: Cluster) -> int:
    controller = cluster.controller
    try:
        return (
            (controller.root / _SAVED).stat().st_mtime_ns
            if controller is not None and controller.powered
            else 0
        )
    except OSError:
        return 0


def _scontrol(cluster: Cluster, *arguments: str) -> str | None:
    """None while Slurm does not answer."""
    controller = cluster.controller
    if controller is None or not controller.powered:
        return None
    try:
        return str(cluster.slurm.scontrol(controller.slurm_conf, *arguments))
    except (subprocess.SubprocessError, OSError):
        return None

"""A node is replaced behind the run's back."""

from __future__ import annotations

from trainyard.app.audit.own_decisions import audit_own
from trainyard.domain.errors import BackendRejected, ConflictError
from trainyard.domain.records import Action, Cluster, ClusterNode, Run
from trainyard.domain.states import BEING_REPLACED
from trainyard.outside.seen_clusters import BatchResult
from trainyard.ports import Ports


def replace_node(ports: Ports, cluster: Cluster, run: Run, action: Action) -> str:
    node = _find(ports, cluster, action)
    if node is None:
        return f"{action.node} is being replaced already."
    if cluster.adoption is not None and not cluster.adoption.replace_nodes:
        return f"{action.node} is left to the owners of the cluster, who do not let us replace it."
    audit_own(
        ports,
        "node.replace",
        f"node/{cluster.name}/{node.instance_id}",
        key=f"{run.id}-{action.id}-{node.instance_id}",
        reason=action.reason or f"Run {run.id} lost node {action.node}.",
    )
    try:
        result = ports.backend(cluster).replace(cluster.name, [node.instance_id])
    except (BackendRejected, ConflictError) as refused:
        return f"AWS did not replace {action.node}: {refused.detail}"
    if node.instance_id in result.failed and _find(ports, cluster, action) is None:
        # By another invocation of this very step, or by a person.
        return f"{action.node} is being replaced already."
    return _said(
        result,
        node,
        f"Asked AWS to replace {action.node} ({node.instance_id}) behind the run's back.",
    )


def _find(ports: Ports, cluster: Cluster, action: Action) -> ClusterNode | None:
    """The very instance that was lost.

    A replaced node has the same Slurm name but another instance id.
    """
    for node in ports.backend(cluster).nodes(cluster):
        found = (
            node.instance_id == action.instance_id
            if action.instance_id
            else node.name == action.node
        )
        if found and node.role == "worker" and node.status not in BEING_REPLACED:
            return node
    return None


def _said(result: BatchResult, node: ClusterNode, success: str) -> str:
    if node.instance_id in result.failed:
        return f"AWS refused for {node.instance_id}: {result.failed[node.instance_id]}"
    return success

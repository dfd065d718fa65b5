"""Load, look at AWS, decide, save: where the making of a cluster goes next."""

from __future__ import annotations

from typing import Any

from trainyard.app.clusters.adopted_nodes import install_round
from trainyard.app.clusters.cluster_tries import deadline_seconds
from trainyard.app.machines.inputs import StepInput
from trainyard.domain.clusters import ClusterDecision, Seen, judge
from trainyard.domain.records import Cluster
from trainyard.domain.states import BackendStatus, NodeState
from trainyard.outside.seen_clusters import BackendCluster
from trainyard.ports import Ports


def cluster_decide(ports: Ports, given: StepInput) -> dict[str, Any]:
    """Decide where the making of the cluster goes next.

    Events wake this step, but it believes only DescribeCluster.
    """
    cluster = ports.clusters.get(given.cluster_name)
    if cluster.generation != given.generation:
        return {
            "next": "stop",
            "reason": "A newer cluster of this name exists.",
            "timeoutSeconds": 1,
        }
    if cluster.adoption is not None and cluster.status in ("Creating", "InService"):
        cluster = install_round(ports, cluster)
    decision = decision_of(ports, cluster)
    update: dict[str, Any] = {}
    if decision.in_service and cluster.status == "Creating":
        update["status"] = "InService"
    if decision.next == "fail" and cluster.problem is None:
        update["problem"] = decision.problem
    if update:
        ports.clusters.put(cluster.changed(**update))
    return {
        "next": decision.next,
        "reason": decision.reason[:1000],
        "timeoutSeconds": decision.timeout_seconds,
    }


def decision_of(ports: Ports, cluster: Cluster) -> ClusterDecision:
    known = ports.backend(cluster).describe(cluster.name) if cluster.arn is not None else None
    if known is not None:
        ports.backend(cluster).attend(cluster)
    seen = (
        Seen(known.status, known.failure_message, _controller(ports, cluster, known))
        if known is not None
        else None
    )
    return judge(
        cluster,
        ports.clusters.facts(cluster.name),
        seen,
        ports.clock.now(),
        deadline_seconds(ports, cluster),
    )


def _controller(ports: Ports, cluster: Cluster, known: BackendCluster) -> NodeState | None:
    """The state of the controller once there should be one."""
    if known.status != BackendStatus.IN_SERVICE:
        return None
    node = ports.backend(cluster).controller(cluster)
    return node.status if node is not None else None

"""Whether HyperPod's lifecycle logs lie where we look for them."""

from __future__ import annotations

from ..register import look
from ..verdicts import Seen, broken, held, unseen
from ..world import World


@look("A-018", after="ready")
def lifecycle_logs_are_in_their_streams(world: World) -> Seen:
    if not world.nodes:
        return unseen("A-018", "the cluster has no nodes")
    empty = [node for node in world.nodes if not world.lifecycle_logs(node)]
    if not empty:
        return held(
            "A-018",
            f"each of {len(world.nodes)} nodes has lines in LifecycleConfig/<group>/<instance id>",
        )
    there = ", ".join(world.log_streams) or "no stream"
    missing = ", ".join(f"{node['group']}/{node['instanceId']}" for node in empty)
    return broken(
        "A-018",
        f"no line of {missing} in {world.log_group}; there is: {there}",
        (
            "Look for the group in CloudWatch and correct backends/hyperpod/logs.py; "
            "until then read the scripts' log there by hand"
        ),
    )


@look("A-015", after="ready")
def each_nodes_address_is_told_by_describe_cluster_node(world: World) -> Seen:
    listed = [node for node in world.backend_nodes if "PrivatePrimaryIp" in node]
    if not world.backend_nodes:
        return unseen("A-015", "AWS lists no nodes of the cluster")
    details = {
        node["InstanceId"]: world.described_node(node["InstanceId"]) or {}
        for node in world.backend_nodes
    }
    without = [
        instance for instance, detail in details.items() if not detail.get("PrivatePrimaryIp")
    ]
    if without:
        return Seen(
            "A-015",
            "broken",
            f"DescribeClusterNode gives no PrivatePrimaryIp of {', '.join(without)}",
            (
                "Nodes have no names then: see HyperPod._address (backends/hyperpod/backend.py), "
                "and report what DescribeClusterNode answered"
            ),
        )
    also = "; ListClusterNodes has them too" if listed else ""
    return held(
        "A-015", f"DescribeClusterNode gives the address of each of {len(details)} nodes{also}"
    )

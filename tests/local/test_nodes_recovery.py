"""HyperPod's recovery in the local cloud: what a Slurm reason or a health finding brings about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.node_cloud import NodeCloud
from tests.support.waiting import eventually

from trainyard_local.hyperpod import recovery as hyperpod_recovery
from trainyard_local.hyperpod.cluster import LocalCluster
from trainyard_local.nodes.node import Node

#: slurmctld saves and a node boots within seconds; more when the machine is busy.
SECONDS = 60


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[NodeCloud]:
    cloud = NodeCloud(tmp_path / "state", notice_seconds=1.0)
    yield cloud
    cloud.close()
    assert cloud.leftovers() == []


def ask(nodes: NodeCloud, cluster: LocalCluster, node: Node, action: str, state: str) -> None:
    nodes.slurm(
        cluster, "scontrol", "update", f"nodename={node.name}", f"state={state}", f"reason={action}"
    )


def described(nodes: NodeCloud) -> list[str]:
    return [
        detail["EventDetails"]["Description"]
        for kind, detail in nodes.events
        if "EventDetails" in detail
    ]


def all_idle(nodes: NodeCloud, cluster: LocalCluster) -> bool:
    """Both workers are idle, and HyperPod has given back what it repaired: it runs before that."""
    asked = "Action:" in nodes.slurm(cluster, "scontrol", "-o", "show", "nodes")
    return (
        not asked
        and len(nodes.idle(cluster)) == 2
        and all(node.status == "Running" for node in cluster.members())
    )


@pytest.mark.parametrize("action", ["Reboot", "Replace"])
def test_a_node_whose_reason_asks_for_it_is_repaired_once_no_job_is_left_on_it(
    nodes: NodeCloud, action: str
) -> None:
    cluster = nodes.create("main")
    job = nodes.submit(cluster, nodes=2)
    before = {node.name: node.instance_id for node in nodes.workers(cluster)}
    worker = nodes.workers(cluster)[1]
    ask(nodes, cluster, worker, f"Action:{action}", "fail")
    asked = [event for event in described(nodes) if "Reboot of" in event or "replacement" in event]
    assert len(nodes.sleeping(cluster)) == 2, "the job goes on"
    assert asked == []
    nodes.slurm(cluster, "scancel", job)
    words = "Reboot of EC2 Instance" if action == "Reboot" else "as part of instance replacement"
    eventually(
        f"it is told: {words}",
        lambda: [event for event in described(nodes) if words in event],
        SECONDS,
    )
    eventually("the node serves again", lambda: all_idle(nodes, cluster), SECONDS)
    after = {node.name: node.instance_id for node in nodes.workers(cluster)}
    assert after.keys() == before.keys()
    changed = {name for name in after if after[name] != before[name]}
    assert changed == ({worker.name} if action == "Replace" else set())
    assert len([event for event in described(nodes) if words in event]) == 1, "once"


def test_a_node_that_is_under_repair_is_not_repaired_beside_it(nodes: NodeCloud) -> None:
    cluster = nodes.create("main")
    node = nodes.workers(cluster)[0]
    begun: list[str] = []
    repairs = {"Reboot": lambda node: begun.append(node.name)}
    node.status = "ShuttingDown"
    repaired = hyperpod_recovery.repair(cluster, repairs, node.name, "Reboot")
    assert (repaired, begun) == (False, [])
    node.status = "Running"
    assert hyperpod_recovery.repair(cluster, repairs, node.name, "Reboot")
    assert begun == [node.name]


def test_any_other_reason_is_only_a_text(nodes: NodeCloud) -> None:
    cluster = nodes.create("main")
    first, second = nodes.workers(cluster)
    ask(nodes, cluster, first, "action:reboot", "drain")
    ask(nodes, cluster, second, "Action:Reboot", "drain")
    eventually(
        "the other one was rebooted",
        lambda: second.name in nodes.idle(cluster) and second.status == "Running",
        SECONDS,
    )
    eventually(
        "it is told", lambda: any("Reboot of" in event for event in described(nodes)), SECONDS
    )
    assert not any(first.instance_id in event for event in described(nodes) if "Reboot of" in event)
    assert (
        "reason=action:reboot"
        in nodes.slurm(cluster, "scontrol", "-o", "show", "node", first.name).lower()
    )


@pytest.mark.parametrize("recovery", ["Automatic", "None"])
def test_a_node_that_does_not_answer_is_rebooted_only_where_recovery_is_automatic(
    nodes: NodeCloud, recovery: str
) -> None:
    cluster = nodes.create("main", NodeRecovery=recovery)
    worker = nodes.workers(cluster)[0]
    nodes.fault("kill-node", cluster, node=worker.name)
    if recovery == "None":
        eventually("it is noticed", lambda: worker.status == "Failure")
        assert "Action:" not in nodes.slurm(cluster, "scontrol", "-o", "show", "node", worker.name)
        return
    eventually(
        "it is rebooted", lambda: any("Reboot of" in event for event in described(nodes)), SECONDS
    )
    eventually("it serves again", lambda: all_idle(nodes, cluster), SECONDS)
    assert worker.instance_id in {node.instance_id for node in nodes.workers(cluster)}


def test_an_unhealthy_node_is_drained_and_then_replaced(nodes: NodeCloud) -> None:
    cluster = nodes.create("main")
    worker = nodes.workers(cluster)[0]
    nodes.fault(
        "node-health", cluster, node=worker.name, action="Replace", reason="NvidiaErrorTerminate"
    )
    eventually(
        "another instance",
        lambda: worker.instance_id not in {node.instance_id for node in nodes.workers(cluster)},
        SECONDS,
    )
    eventually("it serves", lambda: all_idle(nodes, cluster), SECONDS)

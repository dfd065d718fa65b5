"""With nodeRecovery Automatic HyperPod repairs nodes; the run goes on and asks for no repair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.spec_parts import cluster_spec
from tests.support.system import System, eventually, light_job

NAME = "automatic"


@pytest.fixture(scope="module")
def automatic(system: System) -> Iterator[str]:
    """A cluster of a worker and a spare that HyperPod repairs."""
    system.api.create_cluster(cluster_spec(NAME, workers=1, spares=1, nodeRecovery="Automatic"))
    cluster = system.cluster_ready(NAME)
    yield NAME
    system.api.delete_cluster(NAME)
    system.assert_gone(cluster)


def told_of(system: System, run_id: str, kind: str, node: str) -> list[str]:
    """Of this node only: another one may still be coming back when the run begins."""
    return [line["message"] for line in system.timeline(run_id, kind) if node in line["message"]]


def instances(system: System) -> set[str]:
    return {node["instanceId"] for node in system.api.nodes(NAME)}


def test_a_node_that_hyperpod_wants_to_reboot_trains_to_the_end_and_is_rebooted_after_it(
    system: System, automatic: str
) -> None:
    system.workers_serve(automatic)
    before = instances(system)
    run_id = system.submit(
        "drained", light_job(steps=30, every=10, hold_at=15), automatic, export={"enabled": False}
    )
    node = system.training(run_id)["attempts"][0]["nodes"][0]
    system.fault("node-health", automatic, node=node, action="Reboot", reason="NvidiaErrorReboot")
    eventually(
        "Slurm drains it",
        lambda: "Action:Reboot" in system.slurm(automatic, "scontrol", "-o", "show", "node", node),
    )
    system.release(run_id)
    run = system.ended(run_id, "Succeeded")
    assert len(run["attempts"]) == 1, system.story(run_id)
    rebooted = f"Reboot of EC2 Instance {system.node(automatic, node)['instanceId']}"
    sagemaker = system.aws("sagemaker")

    def events() -> list[dict[str, Any]]:
        return sagemaker.list_cluster_events(ClusterName=automatic, MaxResults=100)["Events"]

    eventually(
        "HyperPod reboots it", lambda: any(rebooted in event["Description"] for event in events())
    )
    eventually(
        "it serves again",
        lambda: "Action:" not in system.slurm(automatic, "scontrol", "-o", "show", "node", node),
    )
    system.workers_serve(automatic)
    assert instances(system) == before


def test_a_lost_node_that_hyperpod_reboots_is_left_to_it_while_the_run_goes_on_on_the_spare(
    system: System, automatic: str
) -> None:
    system.workers_serve(automatic)
    before = instances(system)
    run_id = system.submit(
        "rebooted", light_job(steps=100000, every=10), automatic, export={"enabled": False}
    )
    node = system.training(run_id, checkpoints=1)["attempts"][0]["nodes"][0]
    system.fault("kill-node", automatic, node=node)
    resumed = system.training(run_id, attempt=2)["attempts"][1]
    assert node not in resumed["nodes"]
    [held] = eventually(
        "the repair is awaited", lambda: told_of(system, run_id, "RepairAwaited", node)
    )
    assert "AWS repairs this cluster's nodes itself" in held
    system.until(
        run_id, "the node is back", lambda run: told_of(system, run_id, "NodeReturned", node)
    )
    system.until(run_id, "no repair is left to do", lambda _: not system.actions(run_id))
    assert instances(system) == before, "the very instance came back: nobody asked for another one"
    system.api.cancel_run(run_id)
    run = system.ended(run_id, "Cancelled")
    assert len(run["attempts"]) == 2, "training went on all the while"


def test_a_replacement_by_hyperpod_costs_an_attempt_at_most_and_no_second_replacement(
    system: System, automatic: str
) -> None:
    system.workers_serve(automatic)
    before = instances(system)
    run_id = system.submit("replaced", light_job(steps=60, every=10, hold_at=55), automatic)
    node = system.training(run_id, checkpoints=1)["attempts"][0]["nodes"][0]
    system.slurm(
        automatic, "scontrol", "update", f"nodename={node}", "state=down", "reason=Action:Replace"
    )
    system.training(run_id, attempt=2)
    eventually("another instance", lambda: len(instances(system) - before) == 1)
    system.release(run_id)
    run = system.ended(run_id, "Succeeded")
    assert len(run["attempts"]) == 2, system.story(run_id)
    system.workers_serve(automatic)
    assert len(instances(system) - before) == 1, "one replacement, not two"

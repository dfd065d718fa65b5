"""Nodes that are killed at the worst moments, replaced, rebooted, and missing."""

from __future__ import annotations

from tests.support.spec_parts import cluster_spec
from tests.support.system import Json, System, eventually, light_job, total


def test_a_node_killed_while_a_checkpoint_is_written_costs_only_that_checkpoint(
    system: System, shared: str
) -> None:
    run_id = system.submit("torn", light_job(2, steps=60, every=20, write_seconds=2), shared)
    run = system.training(run_id, checkpoints=1)
    torn = system.checkpoints_dir(run_id) / ".tmp-step-000000000040-attempt-1"
    system.until(run_id, "the second checkpoint is being written", lambda _: torn.exists())
    writer = system.node(shared, run["attempts"][0]["nodes"][0])
    system.fault("kill-node", shared, node=writer["instanceId"])
    ended = system.ended(run_id, "Succeeded")
    one, two = ended["attempts"]
    assert one["outcome"] == "lost"
    assert two["resumedFrom"] == 20
    assert writer["name"] not in two["nodes"]
    assert {(found["step"], found["attempt"]) for found in system.whole(run_id)} == {
        (20, 1),
        (40, 2),
        (60, 2),
    }
    [incident] = ended["incidents"]
    assert incident["cause"] == "node-lost"
    assert incident["node"] == writer["name"]
    assert (
        "Resuming on other nodes from the newest whole checkpoint (step 20 "
        in system.timeline(run_id, "Resuming")[0]["message"]
    )
    assert "Training goes on from step 20, " in system.timeline(run_id, "Resumed")[0]["message"]
    assert system.value(run_id) == total(60)
    eventually(
        "the lost node is replaced", lambda: writer["instanceId"] not in instances(system, shared)
    )


def test_a_node_that_stands_still_is_a_lost_node_and_no_error_of_the_program(
    system: System, shared: str
) -> None:
    run_id = system.submit(
        "still",
        light_job(2, steps=40, every=10, hold_at=25),
        shared,
        recovery={"sameErrorLimit": 1},
    )
    run = system.training(run_id, checkpoints=2)
    still = system.node(shared, run["attempts"][0]["nodes"][0])
    assert system.fault("freeze-node", shared, node=still["instanceId"])["stopped"] > 3
    system.release(run_id)
    ended = system.ended(run_id, "Succeeded")
    [incident] = ended["incidents"]
    assert (incident["cause"], incident["node"]) == ("node-lost", still["name"])
    assert "slurmd does not answer" in system.timeline(run_id, "NodeLost")[0]["message"]
    one, two = ended["attempts"]
    assert (one["outcome"], two["resumedFrom"]) == ("lost", 20)
    assert still["name"] not in two["nodes"]
    assert system.value(run_id) == total(40)
    eventually(
        "the lost node is replaced", lambda: still["instanceId"] not in instances(system, shared)
    )


def test_without_a_spare_the_run_waits_for_a_node_and_goes_on_when_one_returns(
    system: System, shared: str
) -> None:
    run_id = system.submit("no-spare", light_job(2, steps=40, every=10, hold_at=25), shared)
    run = system.training(run_id, checkpoints=2)
    used = run["attempts"][0]["nodes"]
    spare = next(
        node
        for node in system.api.nodes(shared)
        if node["role"] == "worker" and node["name"] not in used
    )
    other = system.node(shared, used[1])
    with system.denied(
        "StepsRole", "sagemaker:BatchReplaceClusterNodes"
    ):  # as when AWS has no more capacity
        for node in (spare, other):
            system.fault("kill-node", shared, node=node["instanceId"])
        waiting = system.until(
            run_id, "it waits for a node", lambda run: run["status"] == "WaitingForNode"
        )
        assert "No spare is left: 1 of 2 nodes are usable" in waiting["reason"]
        assert len(waiting["attempts"]) == 1
        eventually("both refusals are told", lambda: len(refusals(system, run_id)) == 2)
    assert system.api.replace_node(shared, spare["instanceId"])["failed"] == {}
    ended = system.ended(run_id, "Succeeded", 120)
    _, two = ended["attempts"]
    assert (
        two["resumedFrom"]
        == max(found["step"] for found in system.whole(run_id) if found["attempt"] == 1)
        >= 20
    )
    assert other["name"] not in two["nodes"]
    assert "A node is back" in system.timeline(run_id, "Resuming")[-1]["message"]
    assert system.value(run_id) == total(40)


def test_a_worker_killed_while_the_run_is_exported_changes_nothing(
    system: System, shared: str
) -> None:
    run_id = system.submit(
        "export-worker",
        light_job(2, steps=60, every=1, hold_at=50),
        shared,
        checkpoint={"keep": 100},
    )
    lost = system.node(shared, system.training(run_id)["attempts"][0]["nodes"][0])
    system.release(run_id)
    system.until(run_id, "the export is under way", lambda run: run["status"] == "Exporting")
    system.fault("kill-node", shared, node=lost["instanceId"])
    ended = system.ended(run_id, "Succeeded")
    assert ended["export"]["state"] == "verified"
    assert len(ended["attempts"]) == 1
    assert system.value(run_id) == total(60)


def test_a_node_is_replaced_and_rebooted_through_the_api(system: System, shared: str) -> None:
    one, two, _ = [node for node in system.api.nodes(shared) if node["role"] == "worker"]
    assert system.api.replace_node(shared, one["instanceId"]) == {
        "successful": [one["instanceId"]],
        "failed": {},
    }
    assert system.api.reboot_node(shared, two["instanceId"]) == {
        "successful": [two["instanceId"]],
        "failed": {},
    }
    before = {process.pid for process in system.processes(TRAINYARD_NODE=two["instanceId"])}
    system.workers_serve(shared, 90)
    nodes = {node["name"]: node for node in system.api.nodes(shared)}
    assert nodes[one["name"]]["instanceId"] != one["instanceId"]
    assert nodes[two["name"]]["instanceId"] == two["instanceId"]
    after = {process.pid for process in system.processes(TRAINYARD_NODE=two["instanceId"])}
    assert after
    assert not after & before
    run_id = system.submit("after-repair", light_job(2, steps=4, every=2), shared)
    assert len(system.ended(run_id, "Succeeded")["attempts"]) == 1


def test_a_node_in_use_that_is_rebooted_costs_an_attempt_and_not_the_run(
    system: System, shared: str
) -> None:
    run_id = system.submit("rebooted", light_job(2, steps=40, every=10, hold_at=25), shared)
    used = system.training(run_id, checkpoints=2)["attempts"][0]["nodes"]
    system.api.reboot_node(shared, system.node(shared, used[1])["instanceId"])
    system.until(
        run_id,
        "the next attempt trains",
        lambda run: len(run["attempts"]) == 2 and run["attempts"][1]["firstStepAt"],
        30,
    )
    run = system.ended(run_id, "Succeeded")
    assert "The run's job uses it" in system.timeline(run_id, "RebootRequested")[0]["message"]
    assert (
        run["attempts"][1]["resumedFrom"] >= 20
    )  # the node that is still there may have saved its last step
    assert system.value(run_id) == total(40)


def test_a_controller_killed_while_exporting_ends_the_run_clearly_and_keeps_what_it_holds(
    system: System,
) -> None:
    job = light_job(1, steps=60, every=1, hold_at=50)
    run_id = system.submit("lost-head", job, cluster_spec("lost-head"), checkpoint={"keep": 100})
    cluster = system.training(run_id)["clusterName"]
    controller = system.controller(cluster)
    system.release(run_id)
    system.until(run_id, "the export is under way", lambda run: run["status"] == "Exporting")
    system.fault("kill-node", cluster, node=controller["instanceId"])

    def told() -> Json | None:
        system.sweep()
        found = system.api.run(run_id)
        return found if found["finishedAt"] else None

    eventually("the sweep finds that the controller is lost", told, 120)
    run = system.ended(run_id, "Failed")
    assert run["problem"]["code"] == "export-failed"
    assert system.timeline(run_id, "ClusterLost")
    [kept] = system.timeline(run_id, "ClusterKept")
    assert "in no verified export" in kept["message"]
    assert system.api.cluster(cluster)["status"] == "Ready"

    # The disk of a rebooted controller is as it was, so everything can still be saved.
    assert system.api.reboot_node(cluster, controller["instanceId"])["failed"] == {}
    eventually(
        "the controller serves again", lambda: system.controller(cluster)["status"] == "Running"
    )
    system.api.export_run(run_id)
    run = system.ended(run_id, "Succeeded", 120)
    assert run["export"]["state"] == "verified"
    assert system.value(run_id) == total(60)
    system.assert_gone(system.api.cluster(cluster))


def refusals(system: System, run_id: str) -> list[str]:
    repairs = [entry["message"] for entry in system.timeline(run_id, "Repair")]
    return [message for message in repairs if "AWS did not replace" in message]


def instances(system: System, cluster: str) -> set[str]:
    return {node["instanceId"] for node in system.api.nodes(cluster)}

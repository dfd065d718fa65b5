"""The main job on nodes that boot: Slurm set up in both ways, a cut link and a cut power."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from demo.cloud import node_of
from demo.objects import differences, verify_export, weights
from tests.machines.conftest import FILESYSTEM, Json, Machines
from tests.support.spec_parts import cluster_spec
from tests.support.system import System, eventually

pytestmark = pytest.mark.machines

#: Booting, lifecycle scripts and a cold Python with torch, beside whatever else this machine does.
READY_SECONDS = 180.0
STEPS = 200


def spec(name: str, spares: int = 0, **more: Any) -> Json:
    """Two workers with torch in their image, on FSx for Lustre in a private network."""
    return cluster_spec(
        name, workers=2, spares=spares,
        environment={"kind": "existing", "path": "/opt/trainyard/env"},
        network={"subnetIds": ["subnet-0123456789abcdef0"],
                 "securityGroupIds": ["sg-0123456789abcdef0"]},
        sharedFilesystem={"dnsName": FILESYSTEM["DnsName"], "mountName": FILESYSTEM["MountName"]},
        **more,
    )  # fmt: skip


def submit(system: System, cluster: Json, teardown: str = "always") -> str:
    job = {
        "recipe": "torchrun", "nodes": 2, "processesPerNode": 1, "module": "trainyard_trainers.ddp",
        "arguments": ["--steps", str(STEPS), "--step-seconds", "0.1"],
    }  # fmt: skip
    export = {"checkpoints": "all"}
    return system.submit(
        cluster["name"],
        job,
        cluster,
        checkpoint={"everySeconds": 2, "keep": 5},
        export=export,
        teardown=teardown,
    )


@pytest.fixture(scope="module")
def by_scripts(system: System) -> str:
    """A run beside the others, never disturbed. Its scripts set Slurm up, and its cluster stays."""
    return submit(
        system,
        spec("by-scripts", slurmSetup="ProvisioningParameters", provisioning="AllAtOnce"),
        teardown="never",
    )


def final_weights(system: System, run: Json, steps: int = STEPS) -> dict[str, bytes]:
    """Of a run that is over: every exported object is as the manifest says."""
    exported = verify_export(
        system.aws("s3"), system.local["bucket"], run["id"], run["objectsPrefix"]
    )
    assert exported.wrong == []
    assert exported.last_step == steps
    found = weights(exported.final)
    assert found
    return found


def assert_as_if_nothing_had_happened(system: System, run: Json, undisturbed: str) -> None:
    """The same weights, bit for bit, and the cluster is gone with all that was made for it."""
    assert run["clusterDeleted"]
    system.assert_gone(system.api.cluster(run["clusterName"]))
    reference = system.ended(undisturbed, "Succeeded", READY_SECONDS)
    assert len(reference["attempts"]) == 1
    assert differences(final_weights(system, run), final_weights(system, reference)) == []


def test_a_run_whose_nodes_link_is_cut_goes_on_on_the_spare_and_ends_with_the_same_weights(
    system: System, by_scripts: str
) -> None:
    run = system.training(
        submit(system, spec("cut", spares=1)), checkpoints=2, seconds=READY_SECONDS
    )
    lost, final = lose(system, run, "cut-link")
    first, second = final["attempts"]
    assert lost in first["nodes"]
    assert lost not in second["nodes"]
    assert second["resumedFrom"] > 0
    assert [
        entry["message"]
        for entry in system.timeline(run["id"], "NodeLost")
        if lost in entry["message"]
    ]
    assert_as_if_nothing_had_happened(system, final, by_scripts)


def test_ranks_meet_while_no_node_can_look_a_name_up(
    machines: Machines, system: System, by_scripts: str
) -> None:
    name = system.ended(by_scripts, "Succeeded", READY_SECONDS)["clusterName"]
    workers = [node for node in machines.nodes(name) if node["group"] == "workers"]
    nobody = "cp /etc/resolv.conf /root/names && echo nameserver 192.0.2.1 > /etc/resolv.conf"
    for node in workers:
        machines.on(node, "sh", "-c", nobody)
    job = {
        "recipe": "torchrun", "nodes": 2, "processesPerNode": 1, "module": "trainyard_trainers.ddp",
        "arguments": ["--steps", "10"],
    }  # fmt: skip
    run = system.ended(system.submit("no-names", job, name), "Succeeded", READY_SECONDS)
    for node in workers:
        machines.on(node, "cp", "/root/names", "/etc/resolv.conf")
    assert len(run["attempts"]) == 1, system.story(run["id"])
    assert run["reason"] == "Training finished at step 10."


def test_scripts_that_run_on_create_set_slurm_up_and_the_run_trains(
    machines: Machines, system: System, by_scripts: str
) -> None:
    run = system.ended(by_scripts, "Succeeded", READY_SECONDS)
    name = run["clusterName"]
    for worker in [node for node in machines.nodes(name) if node["group"] == "workers"]:
        assert machines.on(worker, "systemctl", "is-enabled", "slurmctld") == "masked"
        assert (
            machines.on(
                worker, "systemctl", "is-active", "slurmd", "munge", "trainyard-agent"
            ).split()
            == ["active"] * 3
        )
        assert "--conf-server" in machines.on(
            worker, "systemctl", "show", "slurmd", "-p", "Environment"
        )
        assert machines.on(worker, "findmnt", "-n", "-o", "TARGET", "/fsx") == "/fsx"
    assert_settings_outlive_a_rewriting(machines, name)
    system.api.delete_cluster(name)
    system.assert_gone(system.api.cluster(name))


def assert_settings_outlive_a_rewriting(machines: Machines, cluster: str) -> None:
    """HyperPod rewrites slurm.conf with each new node: ours stay in force and reach the workers."""
    controller, conf = machines.node(cluster, "controller"), "/opt/slurm/etc/slurm.conf"
    asked = (
        "sh",
        "-c",
        "/opt/slurm/bin/scontrol show config | grep -E '^(TCPTimeout|EpilogSlurmctld) '",
    )

    def in_force() -> bool:
        said = machines.on(controller, *asked)
        return "1 sec" in said and "/opt/trainyard/bin/slurm-job-end" in said

    eventually("our settings are in force", in_force, 30)
    machines.on(
        controller,
        "sh",
        "-c",
        f"sed -i '/^Include/d' {conf} && /opt/slurm/bin/scontrol reconfigure",
    )
    assert not in_force()
    eventually("our settings are in force again", in_force, 30)
    assert machines.on(
        controller, "stat", "-c", "%U", conf, "/opt/slurm/etc/trainyard.conf"
    ).split() == ["slurm", "slurm"]
    worker = machines.node(cluster, "workers")
    cached = "/var/spool/slurmd/conf-cache/trainyard.conf"
    eventually(
        "the worker has them", lambda: "TCPTimeout=1" in machines.on(worker, "cat", cached), 30
    )


def test_after_a_power_cut_without_a_spare_the_run_goes_on_on_a_replacement_with_another_address(
    machines: Machines, system: System, by_scripts: str
) -> None:
    run = system.training(submit(system, spec("power")), checkpoints=2, seconds=READY_SECONDS)
    before = {node["name"] for node in machines.nodes(run["clusterName"])}
    system.quirk(
        "scripts-come-late"
    )  # Slurm has the replacement long before it is set up, and must not cost an attempt
    try:
        lost, final = lose(system, run, "kill-node")
    finally:
        system.quirk("scripts-come-late", on=False)
    first, second = final["attempts"]
    (fresh,) = set(second["nodes"]) - set(first["nodes"])
    assert lost not in second["nodes"]
    assert fresh not in before, "the replacement has a name that Slurm did not know"
    assert_as_if_nothing_had_happened(system, final, by_scripts)


def lose(system: System, run: Json, kind: str) -> tuple[str, Json]:
    """Let the fault befall the node of rank 1; its name, and the run at its end."""
    cluster, name = run["clusterName"], run["attempts"][0]["nodes"][1]
    node = node_of(system.api, cluster, name)
    fault = system.fault(kind, cluster, node=node["instanceId"])
    assert fault["instanceId"] == node["instanceId"]
    began = datetime.now().astimezone()
    resumed = system.training(run["id"], attempt=2, seconds=READY_SECONDS)["attempts"][1]
    seconds = (datetime.fromisoformat(resumed["firstStepAt"]) - began).total_seconds()
    print(f"{kind}: {seconds:.1f} s from the fault to the first new step")
    return name, system.ended(run["id"], "Succeeded", READY_SECONDS)

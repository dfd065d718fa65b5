"""What a script finds on a node that is a machine, made in both ways, and what befalls machines."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.machines.conftest import Json, Machines, nothing_left
from tests.support.repository import ROOT
from tests.support.system import eventually

from trainyard.aws.session_channel import SessionChannel
from trainyard_local import control
from trainyard_local.machines import network as machine_network
from trainyard_local.nodes import processes as node_processes

pytestmark = pytest.mark.machines


@pytest.fixture(scope="module")
def configured(machines: Machines) -> Iterator[list[Json]]:
    """A cluster whose nodes HyperPod's image set up before the script ran."""
    yield machines.up("configured", "OnInitComplete", workers=2)
    machines.delete("configured")


def knock(address: str, port: int = 6818, seconds: float = 3.0) -> float:
    """How long a connection takes; TimeoutError without an answer, or ConnectionRefusedError."""
    began = time.monotonic()
    socket.create_connection((address, port), timeout=seconds).close()
    return time.monotonic() - began


def test_on_init_complete_finds_munge_slurm_and_the_file_system(
    machines: Machines, configured: list[Json]
) -> None:
    controller, worker = (machines.told("configured", node) for node in configured[:2])
    assert (controller["slurmctld"], controller["munge"], controller["mounted"]) == (
        "active",
        "active",
        "yes",
    )
    assert (worker["slurmd"], worker["munge"], worker["mounted"], worker["slurm-conf"]) == (
        "active",
        "active",
        "yes",
        "no",
    )


def test_workers_take_their_configuration_from_the_controller_and_are_cloud_nodes(
    machines: Machines, configured: list[Json]
) -> None:
    controller = configured[0]
    workers = sorted(node["name"] for node in configured[1:])

    def idle() -> bool:
        shown = machines.on(controller, "/opt/slurm/bin/scontrol", "-o", "show", "nodes")
        return shown.count("State=IDLE+CLOUD") == len(workers)

    eventually("both workers are idle", idle, 30)
    partitions = machines.on(controller, "/opt/slurm/bin/sinfo", "-h", "-o", "%P %D").split("\n")
    assert sorted(partitions) == ["dev* 2", "main 2"]
    asked = ["/opt/slurm/bin/srun", "--immediate=20", "-p", "main", "-N2", "hostname"]
    assert sorted(machines.on(controller, *asked).split()) == workers


def test_a_script_finds_the_image_as_hyperpod_has_it(
    machines: Machines, configured: list[Json]
) -> None:
    worker = configured[1]
    told = machines.told("configured", worker)
    assert (told["user"], told["host"], told["addressed"]) == ("root", worker["name"], "yes")
    assert (told["sbatch"], told["slurm-sbatch"]) == ("no", "yes"), (
        "Slurm is in no PATH but a login shell's"
    )
    assert told["venv"] == "no", "ensurepip is missing"
    assert told["package-lock"] == "held"
    assert ":assumed-role/" in told["role"], "credentials come from the metadata service"
    assert not [name for name in told["environment"].split() if name.startswith("TRAINYARD_")]
    assert not any("standard output" in line for line in machines.log("configured", worker))


def test_on_create_leaves_everything_to_the_script(machines: Machines) -> None:
    nodes = machines.up("bare", "OnCreate")
    controller, worker = (machines.told("bare", node) for node in nodes)
    for told in (controller, worker):
        assert (told["munge"], told["slurmd"], told["slurmctld"], told["mounted"]) == (
            "inactive",
            "inactive",
            "inactive",
            "no",
        )
        assert told["resolves"] == "no", "names resolve seconds late"
    assert (worker["slurm-conf"], worker["template"]) == ("no", "yes")
    eventually(
        "HyperPod's agent wrote slurm.conf",
        lambda: "NodeName=" in machines.on(nodes[0], "cat", "/opt/slurm/etc/slurm.conf"),
        20,
    )
    machines.delete("bare")


def test_of_a_script_that_fails_at_once_nothing_is_seen_but_what_was_sent_in_time(
    machines: Machines,
) -> None:
    machines.create("failing", "OnCreate", fail=True)
    described = eventually(
        "the cluster failed",
        lambda: (
            found
            if (found := machines.sagemaker.describe_cluster(ClusterName="failing"))[
                "ClusterStatus"
            ]
            == "Failed"
            else None
        ),
        60,
    )
    assert "Lifecycle scripts did not run successfully" in described["FailureMessage"]
    controller = machines.node("failing", "controller")
    assert controller["on"] is False
    assert "last=words" not in "\n".join(machines.log("failing", controller))
    machines.delete("failing")


def test_a_session_is_ssm_users_who_may_become_root(
    machines: Machines, configured: list[Json]
) -> None:
    arn = machines.sagemaker.describe_cluster(ClusterName="configured")["ClusterArn"]
    target = f"sagemaker-cluster:{arn.rpartition('/')[2]}_controller-{configured[0]['instanceId']}"
    channel = SessionChannel(machines.aws("ssm"))
    for argv, expected in ((["id", "-un"], "ssm-user"), (["sudo", "-n", "id", "-un"], "root")):
        assert (
            channel.run(lambda again: target, argv, timeout_seconds=30).stdout.strip() == expected
        )


def test_a_cut_link_answers_nobody_and_passes_by_itself(
    machines: Machines, configured: list[Json]
) -> None:
    worker = configured[1]
    assert knock(worker["address"]) < 1
    machines.fault("cut-link", "configured", worker, seconds=4)
    with pytest.raises(TimeoutError):
        knock(worker["address"], seconds=1)
    eventually("the link is healed", lambda: _answers(worker["address"]), 20)


def test_peers_are_cut_off_while_aws_is_reached(machines: Machines, configured: list[Json]) -> None:
    one, other = configured[1:]
    reach = (
        "import socket, sys; "
        "socket.create_connection((sys.argv[1], int(sys.argv[2])), 1); print('there')"
    )
    host, port = (
        machines.on(
            one,
            "sh",
            "-c",
            "tr '\\0' '\\n' </proc/1/environ; grep -h ENDPOINT_URL /etc/systemd/system.conf.d/*",
        )
        .rpartition("AWS_ENDPOINT_URL=http://")[2]
        .rstrip('"')
        .split(":")
    )
    machines.fault("cut-peers", "configured", one)
    assert machines.on(one, "python3", "-c", reach, host, port) == "there"
    assert machines.on(one, "python3", "-c", reach, other["address"], "6818") == ""
    machines.fault("heal-node", "configured", one)
    assert machines.on(one, "python3", "-c", reach, other["address"], "6818") == "there"


def test_a_slow_link_is_slow_both_ways_and_quick_again_when_healed(
    machines: Machines, configured: list[Json]
) -> None:
    worker = configured[1]
    machines.fault("slow-link", "configured", worker, milliseconds=200, percent=1)
    assert min(knock(worker["address"], seconds=10) for _ in range(3)) >= 0.4
    machines.fault("heal-node", "configured", worker)
    assert min(knock(worker["address"]) for _ in range(3)) < 0.2


def test_a_frozen_machine_stands_still_and_goes_on(
    machines: Machines, configured: list[Json]
) -> None:
    worker = configured[2]
    init = machines.init(worker)
    machines.fault("freeze-node", "configured", worker)
    assert "State:\tT" in Path(f"/proc/{init}/status").read_text()
    machines.fault("heal-node", "configured", worker)
    assert machines.on(worker, "hostname") == worker["name"]


def test_a_rebooted_machine_has_its_disk_and_services_and_a_replacement_has_another_address(
    machines: Machines, configured: list[Json]
) -> None:
    worker = configured[2]
    machines.on(worker, "touch", "/var/lib/kept")
    machines.sagemaker.batch_reboot_cluster_nodes(
        ClusterName="configured", NodeIds=[worker["instanceId"]]
    )
    again = eventually("it runs again", lambda: _running(machines, worker), 60)
    assert machines.on(again, "ls", "/var/lib/kept") == "/var/lib/kept"
    eventually(
        "slurmd runs after the boot",
        lambda: machines.on(again, "systemctl", "is-active", "slurmd") == "active",
        30,
    )
    machines.sagemaker.batch_replace_cluster_nodes(
        ClusterName="configured", NodeIds=[worker["instanceId"]]
    )
    fresh = eventually("the replacement runs", lambda: _replacement(machines, configured), 60)
    assert fresh["address"] not in [node["address"] for node in configured]
    assert machines.on(fresh, "hostname") == fresh["name"] != worker["name"]
    assert machines.on(fresh, "ls", "/var/lib/kept") == ""


def test_hyperpod_reboots_and_replaces_a_machine_whose_reason_in_slurm_asks_for_it(
    machines: Machines, configured: list[Json]
) -> None:
    controller, worker = configured[0], configured[1]
    node = machines.nodes("configured")
    before = machines.init(worker)

    def ask(action: str) -> None:
        change = (f"nodename={worker['name']}", "state=drain", f"reason=Action:{action}")
        machines.on(controller, "/opt/slurm/bin/scontrol", "update", *change)

    def serves(name: str) -> bool:
        shown = machines.on(controller, "/opt/slurm/bin/scontrol", "-o", "show", "node", name)
        return "State=IDLE+CLOUD " in shown and "Action:" not in shown

    eventually("it serves", lambda: serves(worker["name"]), 30)
    ask("Reboot")
    eventually(
        "it was rebooted",
        lambda: _running(machines, worker) and machines.init(worker) != before,
        60,
    )
    eventually("it serves again", lambda: serves(worker["name"]), 30)
    ask("Replace")
    fresh = eventually("another one runs", lambda: _replacement(machines, node), 60)
    assert fresh["name"] != worker["name"]
    eventually("it serves", lambda: serves(fresh["name"]), 30)
    assert worker["name"] not in machines.on(
        controller, "/opt/slurm/bin/scontrol", "-o", "show", "nodes"
    )
    configured[1] = fresh


def test_a_power_cut_ends_the_machine_with_its_link_and_nobody_is_told(
    machines: Machines, configured: list[Json]
) -> None:
    worker = configured[1]
    with socket.create_connection((worker["address"], 6818), timeout=3) as open_connection:
        assert machines.fault("kill-node", "configured", worker)["killed"] > 3
        assert machines.init(worker) is None
        open_connection.settimeout(1)
        with pytest.raises(TimeoutError):
            open_connection.recv(1)
    with pytest.raises(OSError):
        knock(worker["address"], seconds=1)
    bridge = machine_network.ip(
        "-brief", "link", "show", machine_network.bridge_name(machines.state_dir)
    )
    assert machine_network.hardware_address(machines.state_dir) in bridge, (
        "or the others would not find AWS for half a minute"
    )


def test_down_removes_machines_and_links_also_after_the_server_was_killed(tmp_path: Path) -> None:
    state_dir = tmp_path / "killed"
    local = control.up(state_dir, 0, ROOT / "template.yaml", nodes="machines")
    cloud = Machines(state_dir, local)
    cloud.up("left", "OnInitComplete")
    os.kill(local["pid"], signal.SIGKILL)
    assert node_processes.matching(node_processes.of_cloud(state_dir.resolve()))
    assert control.down(state_dir)["killed"] > 10
    assert nothing_left(state_dir)


def _answers(address: str) -> bool:
    try:
        return knock(address, seconds=1) >= 0
    except OSError:
        return False


def _running(machines: Machines, node: Json) -> Json | None:
    now = next(
        found for found in machines.nodes("configured") if found["instanceId"] == node["instanceId"]
    )
    return now if now["status"] == "Running" and now["on"] and machines.init(now) else None


def _replacement(machines: Machines, before: list[Json]) -> Json | None:
    known = {node["instanceId"] for node in before}
    return next(
        (
            node
            for node in machines.nodes("configured")
            if node["instanceId"] not in known and node["status"] == "Running"
        ),
        None,
    )

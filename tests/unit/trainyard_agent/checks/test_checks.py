"""Checks judge readings, a new file in checks/ is a new check, and only repetition convinces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.agent import config

from trainyard_agent.checks import (
    Node,
    Verdict,
    clock,
    discover,
    disk,
    gpu_ecc,
    gpu_xid,
    memory,
    mounts,
    neuron,
    slurm_daemon,
)
from trainyard_agent.host.accelerators import Accelerators
from trainyard_agent.host.neuron_monitor import neuron_sample


@pytest.mark.parametrize(
    ("verdict", "severity"),
    [
        (disk.judge(disk.Reading((("/", 50, 10, True),))), "healthy"),
        (disk.judge(disk.Reading((("/", 50, 91, True),))), "warning"),
        (disk.judge(disk.Reading((("/", 98, 10, True), ("/data", 1, 1, True)))), "error"),
        (disk.judge(disk.Reading((("/", 5, 1, False),))), "error"),
        (memory.judge(memory.Reading(500, 1000)), "healthy"),
        (memory.judge(memory.Reading(40, 1000)), "warning"),
        (memory.judge(memory.Reading(5, 1000)), "error"),
        (mounts.judge(mounts.Reading((), ())), "healthy"),
        (mounts.judge(mounts.Reading(("/fsx",), ())), "error"),
        (mounts.judge(mounts.Reading((), ("/fsx",))), "error"),
        (clock.judge(clock.Reading(True, 0.01)), "healthy"),
        (clock.judge(clock.Reading(False, 16.0)), "warning"),
        (clock.judge(clock.Reading(True, 60.0)), "error"),
        (slurm_daemon.judge(slurm_daemon.Reading("slurmd", 6818, True)), "healthy"),
        (slurm_daemon.judge(slurm_daemon.Reading("slurmd", 6818, False)), "error"),
        (gpu_xid.judge(gpu_xid.Reading(())), "healthy"),
        (gpu_xid.judge(gpu_xid.Reading((("0000:05:00", 94),))), "warning"),
        (gpu_xid.judge(gpu_xid.Reading((("0000:05:00", 79), ("0000:05:00", 31)))), "error"),
        (gpu_ecc.judge(gpu_ecc.Reading((gpu_ecc.Gpu(0, 0, False, False),))), "healthy"),
        (gpu_ecc.judge(gpu_ecc.Reading((gpu_ecc.Gpu(0, 2, False, False),))), "error"),
        (gpu_ecc.judge(gpu_ecc.Reading((gpu_ecc.Gpu(0, 0, True, False),))), "warning"),
        (gpu_ecc.judge(gpu_ecc.Reading((gpu_ecc.Gpu(0, 0, True, True),))), "error"),
        (neuron.judge(neuron.Reading(16, 16, ((0, 0, 0),), 0)), "healthy"),
        (neuron.judge(neuron.Reading(15, 16, (), 0)), "error"),
        (neuron.judge(neuron.Reading(16, 16, ((3, 1, 0),), 0)), "error"),
        (neuron.judge(neuron.Reading(16, 16, (), 2)), "warning"),
    ],
)
def test_a_reading_is_judged(verdict: Verdict, severity: str) -> None:
    assert verdict.severity == severity
    assert verdict.detail


def test_every_file_is_a_check_and_reads_this_machine(tmp_path: Path) -> None:
    checks = discover()
    assert [check.name for check in checks] == [
        "clock",
        "disk",
        "gpu-ecc",
        "gpu-xid",
        "memory",
        "mounts",
        "neuron",
        "slurm-daemon",
    ]
    (tmp_path / "shared").mkdir()
    node = Node(config(tmp_path), Accelerators())
    for check in checks:
        reading = check.read(node)
        assert reading is None or check.judge(reading).severity in ("healthy", "warning", "error")


def test_a_mount_that_is_missing_is_seen(tmp_path: Path) -> None:
    reading = mounts.read(Node(config(tmp_path, mounts=["/", "/not/mounted"]), Accelerators()))
    assert reading.missing == ("/not/mounted",)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "6,1,2,-;NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, "
            "GPU has fallen off the bus.",
            [("0000:05:00", 79)],
        ),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", [("0000:03:00", 14)]),
        ("NVRM: GPU 0000:05:00.0: GPU has fallen off the bus.", [("unknown", 79)]),
        ("usb 1-1: new device", []),
    ],
)
def test_xid_lines_of_the_kernel_are_read(line: str, found: list[Any]) -> None:
    assert gpu_xid.parse(line) == found


def test_the_daemons_port_is_found_in_an_included_file(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(
        "SlurmdPort=7000\nInclude nodes.conf\nInclude missing.conf\n"
    )
    (tmp_path / "nodes.conf").write_text("NodeName=a Port=7005\n")
    assert (
        slurm_daemon.port_of(slurm_daemon.with_includes(tmp_path / "slurm.conf"), "slurmd", "a")
        == 7005
    )


def test_the_daemons_port_comes_from_slurm_conf() -> None:
    text = (
        "SlurmdPort=7000\nSlurmctldPort=7100-7101\n"
        "NodeName=a NodeAddr=1.1.1.1 Port=7005 CPUs=2\nNodeName=b CPUs=2\n"
    )
    assert slurm_daemon.port_of(text, "slurmd", "a") == 7005
    assert slurm_daemon.port_of(text, "slurmd", "b") == 7000
    assert slurm_daemon.port_of(text, "slurmctld", "a") == 7100
    assert slurm_daemon.port_of("", "slurmd", "a") == 6818


def test_a_daemon_that_does_not_run_is_quoted(tmp_path: Path) -> None:
    log = tmp_path / "ip-10-0-0-9.log"
    log.write_text(
        "[2026-01-01T00:00:00.000] error: an old one, long mended\n"
        + "[2026-01-01T00:00:01.000] debug: no error\n" * 1000
        + 2
        * (
            "[2026-01-01T00:01:00.000] error: No filesystem mounted on /sys/fs/cgroup\n"
            "[2026-01-01T00:01:00.001] error: cgroup namespace 'freezer' not mounted. aborting\n"
            "[2026-01-01T00:01:00.002] error: slurmd initialization failed\n"
        )
    )
    conf = tmp_path / "slurm.conf"
    conf.write_text(f"SlurmdPort=1\nSlurmdLogFile={tmp_path}/%n.log\n")
    agent = config(tmp_path, role="worker", node_name="ip-10-0-0-9", slurm_conf=str(conf))
    reading = slurm_daemon.read(Node(agent, Accelerators()))
    assert reading is not None
    assert slurm_daemon.judge(reading).detail == (
        "slurmd does not listen on port 1; its log says: "
        "No filesystem mounted on /sys/fs/cgroup; "
        "cgroup namespace 'freezer' not mounted. aborting; slurmd initialization failed"
    )


def test_a_daemons_log_is_quoted_in_part_and_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "long.log").write_text("fatal: " + "x" * 9000)
    assert slurm_daemon.last_errors(tmp_path / "long.log") == "x" * 400
    assert slurm_daemon.last_errors(tmp_path / "missing.log") == ""
    assert slurm_daemon.log_of("SlurmdPort=1\n", "slurmd", "a") == ""


def test_neuron_monitor_is_read() -> None:
    document: dict[str, Any] = {
        "neuron_hardware_info": {
            "neuron_device_count": 2,
            "neuroncore_per_device_count": 2,
            "neuron_device_memory_size": 100,
        },
        "neuron_runtime_data": [
            {
                "report": {
                    "neuroncore_counters": {
                        "neuroncores_in_use": {
                            "0": {"neuroncore_utilization": 50},
                            "1": {"neuroncore_utilization": 100},
                        }
                    },
                    "memory_used": {"neuron_runtime_used_bytes": {"neuron_device": 40}},
                    "execution_stats": {"error_summary": {"hardware": 1}},
                }
            }
        ],
        "system_data": {
            "neuron_hw_counters": {
                "neuron_devices": [{"neuron_device_index": 1, "mem_ecc_uncorrected": 3}]
            }
        },
    }
    assert [gpu["utilizationPercent"] for gpu in neuron_sample(document)] == [75.0, 0.0]
    assert neuron.parse(document, 2) == neuron.Reading(2, 2, ((1, 3, 0),), 1)
    assert neuron_sample({}) == []

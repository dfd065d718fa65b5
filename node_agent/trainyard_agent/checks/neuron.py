"""Neuron devices, from neuron-monitor.

All are there, with no uncorrected memory error and no hardware error of the runtime.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard_agent.checks import Node, Verdict

EVERY_SECONDS, CONFIRM = 10.0, 2


@dataclass(frozen=True)
class Reading:
    """`errors`: (device, uncorrected errors of HBM, of SRAM); `hardware_errors` of all runtimes."""

    devices: int
    expected: int
    errors: tuple[tuple[int, int, int], ...]
    hardware_errors: int


def read(node: Node) -> Reading | None:
    monitor = node.accelerators.neuron
    if monitor is None or not monitor.latest:
        return None
    return parse(monitor.latest, len(list(Path("/dev").glob("neuron[0-9]*"))))


def parse(document: dict[str, Any], expected: int) -> Reading:
    counters = ((document.get("system_data") or {}).get("neuron_hw_counters") or {}).get(
        "neuron_devices"
    ) or []
    errors = tuple(
        (
            int(device.get("neuron_device_index") or 0),
            int(device.get("mem_ecc_uncorrected") or 0),
            int(device.get("sram_ecc_uncorrected") or 0),
        )
        for device in counters
    )
    hardware = sum(
        int(
            (
                ((runtime.get("report") or {}).get("execution_stats") or {}).get("error_summary")
                or {}
            ).get("hardware")
            or 0
        )
        for runtime in document.get("neuron_runtime_data") or []
    )
    return Reading(
        int((document.get("neuron_hardware_info") or {}).get("neuron_device_count") or 0),
        expected,
        errors,
        hardware,
    )


def judge(reading: Reading) -> Verdict:
    for device, memory, sram in reading.errors:
        if memory or sram:
            return Verdict(
                "error",
                f"Neuron device {device}: {memory} uncorrected HBM "
                f"and {sram} uncorrected SRAM errors",
            )
    if reading.devices < reading.expected:
        return Verdict("error", f"{reading.devices} of {reading.expected} Neuron devices answer")
    if reading.hardware_errors:
        return Verdict(
            "warning", f"{reading.hardware_errors} executions ended with a hardware error"
        )
    return Verdict("healthy", f"{reading.devices} Neuron devices without uncorrected errors")

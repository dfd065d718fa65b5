"""Neuron's devices, through neuron-monitor."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

NEURON_MONITOR = "/opt/aws/neuron/bin/neuron-monitor"


class NeuronMonitor:
    """neuron-monitor prints one JSON document a period; a thread keeps the newest."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.latest: dict[str, Any] = {}
        threading.Thread(target=self._read, name="neuron-monitor", daemon=True).start()

    @classmethod
    def open(cls) -> NeuronMonitor | None:
        program = shutil.which("neuron-monitor") or (
            NEURON_MONITOR if Path(NEURON_MONITOR).exists() else None
        )
        if program is None or not list(Path("/dev").glob("neuron[0-9]*")):
            return None
        try:
            return cls(
                subprocess.Popen(
                    [program],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            )
        except OSError as error:
            log.warning("neuron-monitor does not start: %s", error)
            return None

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):
                document = json.loads(line)
                if isinstance(document, dict):
                    self.latest = document

    def sample(self) -> list[dict[str, Any]]:
        return neuron_sample(self.latest)

    def close(self) -> None:
        self._process.terminate()


def neuron_sample(document: dict[str, Any]) -> list[dict[str, Any]]:
    """events.Gpu of every Neuron device: mean utilization of its cores, device memory in use."""
    hardware = document.get("neuron_hardware_info") or {}
    count, per_device = (
        hardware.get("neuron_device_count") or 0,
        hardware.get("neuroncore_per_device_count") or 1,
    )
    busy: dict[int, float] = {}
    used = 0
    for runtime in document.get("neuron_runtime_data") or []:
        report = runtime.get("report") or {}
        cores = (report.get("neuroncore_counters") or {}).get("neuroncores_in_use") or {}
        for core, counters in cores.items():
            device = int(core) // per_device
            busy[device] = (
                busy.get(device, 0.0)
                + float(counters.get("neuroncore_utilization") or 0) / per_device
            )
        memory = (report.get("memory_used") or {}).get("neuron_runtime_used_bytes") or {}
        used += int(memory.get("neuron_device") or 0)
    total = hardware.get("neuron_device_memory_size")
    return [
        {
            "index": index,
            "kind": "neuron",
            "utilizationPercent": round(busy.get(index, 0.0), 2),
            # neuron-monitor reports memory by runtime, not by device: spread evenly over the
            # devices.
            "memoryUsedBytes": used // count,
            "memoryTotalBytes": total,
        }
        for index in range(count)
    ]

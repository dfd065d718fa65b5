"""NVIDIA through NVML and Neuron through neuron-monitor, each only where the device is there."""

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


class Accelerators:
    """All accelerators of this node; empty lists where there are none."""

    def __init__(self) -> None:
        self.nvidia = Nvidia.open()
        self.neuron = NeuronMonitor.open()

    def sample(self) -> list[dict[str, Any]]:
        """events.Gpu of every device, as they travel."""
        found = self.nvidia.sample() if self.nvidia else []
        return found + (self.neuron.sample() if self.neuron else [])

    def close(self) -> None:
        if self.neuron:
            self.neuron.close()


class Nvidia:
    """NVML's handles, opened once."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._handles = [
            nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())
        ]

    @classmethod
    def open(cls) -> Nvidia | None:
        if not Path("/dev/nvidiactl").exists():
            return None
        try:
            import pynvml
        except ImportError:
            log.warning(
                "this node has NVIDIA devices, but nvidia-ml-py is not installed: "
                "no GPU samples and no GPU checks"
            )
            return None
        try:
            pynvml.nvmlInit()
            return cls(pynvml)
        except pynvml.NVMLError as error:
            log.warning("NVML does not start: %s", error)
            return None

    def sample(self) -> list[dict[str, Any]]:
        found = []
        for index, handle in enumerate(self._handles):
            gpu: dict[str, Any] = {"index": index, "kind": "nvidia"}
            with contextlib.suppress(self._nvml.NVMLError):
                gpu["utilizationPercent"] = float(
                    self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu
                )
            with contextlib.suppress(self._nvml.NVMLError):
                memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
                gpu |= {"memoryUsedBytes": memory.used, "memoryTotalBytes": memory.total}
            found.append(gpu)
        return found

    def ecc(self) -> list[tuple[int, int, bool, bool]]:
        """Of every GPU with ECC.

        (index, uncorrected errors since the driver started, a row remap is pending, a row remap
        failed)
        """
        found = []
        for index, handle in enumerate(self._handles):
            uncorrected, pending, failed = 0, False, False
            with contextlib.suppress(self._nvml.NVMLError):
                uncorrected = self._nvml.nvmlDeviceGetTotalEccErrors(
                    handle,
                    self._nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                    self._nvml.NVML_VOLATILE_ECC,
                )
            with contextlib.suppress(self._nvml.NVMLError):
                _, _, pending, failed = self._nvml.nvmlDeviceGetRemappedRows(handle)
            found.append((index, int(uncorrected), bool(pending), bool(failed)))
        return found


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

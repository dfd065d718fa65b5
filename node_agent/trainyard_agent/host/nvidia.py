"""NVIDIA's devices, through NVML."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)


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

"""NVIDIA through NVML and Neuron through neuron-monitor, each only where the device is there."""

from __future__ import annotations

from typing import Any

from trainyard_agent.host.neuron_monitor import NeuronMonitor
from trainyard_agent.host.nvidia import Nvidia


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

"""One node's sample: CPU, memory, disk, network through psutil, and its accelerators."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

import psutil

from trainyard_agent.host.accelerators import Accelerators
from trainyard_contracts.agent_config import AgentConfig


class Sampler:
    """Rates are over the time since the last sample."""

    def __init__(
        self, config: AgentConfig, accelerators: Accelerators, *, disk_every_seconds: float = 15.0
    ) -> None:
        self._config, self._accelerators = config, accelerators
        self._disk_every = disk_every_seconds
        self._disk_at, self._disk_percent = float("-inf"), 0.0
        self._memory_at, self._memory = float("-inf"), (0, 0)
        self._network = self._counters()
        psutil.cpu_percent(None)

    def take(self) -> dict[str, Any]:
        """An events.NodeSample as it travels (camelCase).

        A plain dict, because it is made each second on every node.
        """
        now = time.monotonic()
        received, sent = self._rates(now)
        used, total = self._read_memory(now)
        return {
            "node": self._config.node_name,
            "instanceId": self._config.instance_id,
            "role": self._config.role,
            "at": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "cpuPercent": psutil.cpu_percent(None),
            "memoryUsedBytes": used,
            "memoryTotalBytes": total,
            "diskUsedPercent": self._read_disk(now),
            "networkReceivedBytesPerSecond": received,
            "networkSentBytesPerSecond": sent,
            "gpus": self._accelerators.sample(),
        }

    @staticmethod
    def _counters() -> tuple[float, int, int]:
        counters = psutil.net_io_counters()
        return (
            time.monotonic(),
            counters.bytes_recv if counters else 0,
            counters.bytes_sent if counters else 0,
        )

    def _rates(self, now: float) -> tuple[float, float]:
        before, self._network = self._network, self._counters()
        seconds = max(1e-3, now - before[0])
        return round(max(0, self._network[1] - before[1]) / seconds, 1), round(
            max(0, self._network[2] - before[2]) / seconds, 1
        )

    def _read_memory(self, now: float) -> tuple[int, int]:
        if now - self._memory_at >= 1.0:
            memory = psutil.virtual_memory()
            self._memory_at, self._memory = now, (memory.total - memory.available, memory.total)
        return self._memory

    def _read_disk(self, now: float) -> float:
        """Of the filesystem of the agent's state; asked rarely, it changes slowly."""
        if now - self._disk_at >= self._disk_every:
            self._disk_at, self._disk_percent = (
                now,
                psutil.disk_usage(self._config.state_dir).percent,
            )
        return self._disk_percent

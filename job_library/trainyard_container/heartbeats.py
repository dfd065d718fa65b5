"""A sample of every host and of the run's step, once a minute, as a cluster's agent sends them."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .events import Events, moment
from .links import Link
from .progress import Progress
from .surroundings import Surroundings

EVERY_SECONDS = 60.0
#: The hosts of one event: PutEvents takes 256 KB a request.
_AT_ONCE = 200
_PROC = Path("/proc")


class Heartbeats:
    """Each host notes its sample; the first one sends those of all."""

    def __init__(
        self, where: Surroundings, link: Link, events: Events, every: float = EVERY_SECONDS
    ) -> None:
        self._where, self._link, self._events, self._every = where, link, events, every
        self._next = 0.0
        self._sampler = Sampler(where)

    def beat(self, progress: Progress, *, now: bool = False) -> None:
        """If it is time, or something just changed."""
        if time.monotonic() < self._next and not now:
            return
        self._next = time.monotonic() + self._every
        sample = self._sampler.take()
        if self._where.is_first:
            self._send(sample, progress)
            return
        with suppress(OSError):  # what waits for the end of this host sees that
            self._link.note(f"sample/{self._where.host}", sample)

    def _send(self, own: dict[str, Any], progress: Progress) -> None:
        others = [self._link.read(f"sample/{host}") for host in self._where.hosts[1:]]
        samples = [own, *(sample for sample in others if sample is not None)]
        run = {
            "runId": self._where.run_id,
            "attempt": self._where.attempt,
            "jobState": "RUNNING",
            "step": progress.step,
            "loss": progress.loss,
        }
        parts = [samples[at : at + _AT_ONCE] for at in range(0, len(samples), _AT_ONCE)]
        for number, part in enumerate(parts, 1):
            self._events.send(
                "ClusterHeartbeat", nodes=part, runs=[run], part=number, parts=len(parts)
            )


class Sampler:
    """This host, by the kernel's numbers; rates are since the last sample."""

    def __init__(self, where: Surroundings) -> None:
        self._where = where
        self._before: tuple[float, list[int], tuple[int, int]] | None = None

    def take(self) -> dict[str, Any]:
        now, cpu, network = time.monotonic(), _cpu(), _network(self._where.interface)
        before, self._before = self._before, (now, cpu, network)
        total, free = _memory()
        sample: dict[str, Any] = {
            "node": self._where.host,
            "instanceId": "",
            "role": "worker",
            "at": moment(datetime.now(timezone.utc)),
            "memoryUsedBytes": total - free,
            "memoryTotalBytes": total,
            "diskUsedPercent": _disk(self._where.ml),
        }
        if before is not None and now > before[0]:
            sample |= _rates(now - before[0], before, cpu, network)
        return sample


def _rates(
    seconds: float,
    before: tuple[float, list[int], tuple[int, int]],
    cpu: list[int],
    network: tuple[int, int],
) -> dict[str, float]:
    spent = [new - old for new, old in zip(cpu, before[1], strict=False)]
    busy = sum(spent) - sum(spent[3:5])  # idle and iowait
    return {
        "cpuPercent": round(100.0 * busy / max(1, sum(spent)), 1),
        "networkReceivedBytesPerSecond": max(0.0, (network[0] - before[2][0]) / seconds),
        "networkSentBytesPerSecond": max(0.0, (network[1] - before[2][1]) / seconds),
    }


def _cpu() -> list[int]:
    try:
        return [int(word) for word in (_PROC / "stat").read_text().split("\n")[0].split()[1:9]]
    except (OSError, ValueError):
        return []


def _memory() -> tuple[int, int]:
    """Of the machine: all, and what is available."""
    found: dict[str, int] = {}
    with suppress(OSError, ValueError):
        for line in (_PROC / "meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            found[name] = int(rest.split()[0]) * 1024
    total = found.get("MemTotal", 0)
    return total, found.get("MemAvailable", total)


def _network(interface: str) -> tuple[int, int]:
    """Bytes received and sent."""
    with suppress(OSError, ValueError, IndexError):
        for line in (_PROC / "net/dev").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name.strip() == interface:
                words = rest.split()
                return int(words[0]), int(words[8])
    return 0, 0


def _disk(path: Path) -> float:
    with suppress(OSError):
        found = os.statvfs(path)
        return round(100.0 * (1 - found.f_bavail / max(1, found.f_blocks)), 1)
    return 0.0

"""Warm pools: the hosts of an ended job, kept for the next one that wants the same."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from trainyard_local.training_jobs.fleet import Fleet
from trainyard_local.training_jobs.job import TrainingJob, WarmPool, now


def key(request: Mapping[str, Any]) -> tuple[object, ...]:
    """What two jobs must have in common, by AWS's page on warm pools."""
    resources, network = request["ResourceConfig"], request.get("VpcConfig") or {}
    return (
        request["RoleArn"],
        *(resources.get(name) for name in ("InstanceType", "InstanceCount", "VolumeSizeInGB")),
        *(tuple(sorted(network.get(name) or [])) for name in ("SecurityGroupIds", "Subnets")),
        bool(request.get("EnableNetworkIsolation")),
        bool(request.get("EnableInterContainerTrafficEncryption")),
    )


@dataclass
class _Kept:
    job: TrainingJob
    fleet: Fleet
    since: datetime = field(default_factory=now)
    changed: threading.Event = field(default_factory=threading.Event)

    def left(self) -> float:
        return self.job.keep_alive_seconds - (now() - self.since).total_seconds()


class WarmPools:
    """Thread safe. A pool's hosts are gone when its period is over, and at the end of the cloud."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []
        self._lock = threading.Lock()

    def keep(self, job: TrainingJob, fleet: Fleet) -> None:
        """From now on the job's pool is available."""
        for host in fleet.hosts:
            host.clear()
        kept = _Kept(job, fleet)
        job.pool(WarmPool("Available", available_at=kept.since))
        with self._lock:
            self._kept.append(kept)
        threading.Thread(
            target=self._expire, args=(kept,), daemon=True, name=f"pool of {job.name}"
        ).start()

    def take(self, job: TrainingJob) -> Fleet | None:
        """The hosts of a pool that matches, which are the job's from now on."""
        with self._lock:
            for kept in self._kept:
                if kept.fleet.whole and key(kept.job.request) == key(job.request):
                    self._kept.remove(kept)
                    kept.job.pool(_over(kept, "Reused", job.name))
                    kept.changed.set()
                    return kept.fleet
        return None

    def changed(self, job: TrainingJob) -> None:
        """Its period is another one."""
        with self._lock:
            for kept in self._kept:
                if kept.job is job:
                    kept.changed.set()

    def _expire(self, kept: _Kept) -> None:
        while kept in self._kept and (left := kept.left()) > 0 and kept.fleet.whole:
            kept.changed.wait(left)
            kept.changed.clear()
        self._end(kept)

    def _end(self, kept: _Kept) -> None:
        with self._lock:
            if kept not in self._kept:
                return
            self._kept.remove(kept)
        kept.fleet.close()
        kept.job.pool(_over(kept, "Terminated"))

    def close(self) -> None:
        """End all of them."""
        for kept in list(self._kept):
            self._end(kept)
            kept.changed.set()


def _over(kept: _Kept, status: str, by: str = "") -> WarmPool:
    seconds = round((now() - kept.since).total_seconds())
    return WarmPool(status, by, kept.since, seconds)

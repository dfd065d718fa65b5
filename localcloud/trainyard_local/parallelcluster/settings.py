"""What tests and demos may want otherwise of clusters; each from a variable of the server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from trainyard_local.sagemaker.capacity import Capacity


@dataclass(frozen=True)
class Settings:
    """The defaults are ParallelCluster's and AWS's own times."""

    #: Between two looks of the head node's daemon at nodes and instances.
    daemon_seconds: float = 60.0
    #: Slurm looks this often at most for nodes to be powered (power_save_min_interval).
    power_seconds: int = 30
    #: A node that did nothing for so long is powered down (ScaledownIdletime's default).
    idle_seconds: int = 600
    #: A node that powers down takes so long to Slurm (SuspendTimeout).
    suspend_seconds: int = 120
    #: For so long nothing is launched of what EC2 had no capacity for.
    capacity_seconds: float = 600.0
    #: From a node's request to its slurmd (ComputeNodeBootstrapTimeout).
    bootstrap_seconds: float = 1800.0
    #: From the notice of a spot interruption to the end of the instance.
    spot_notice_seconds: float = 120.0
    #: After so many nodes of a queue that did not boot, the queue is switched off.
    protected_failures: int = 10
    duplicate_events: bool = False
    capacity: Capacity = field(default_factory=Capacity)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        def seconds(name: str, default: float) -> float:
            return float(environ.get(f"TRAINYARD_LOCAL_{name}_SECONDS", str(default)))

        return cls(
            daemon_seconds=seconds("CLUSTERMGTD", cls.daemon_seconds),
            power_seconds=int(seconds("POWER", cls.power_seconds)),
            idle_seconds=int(seconds("IDLE_NODE", cls.idle_seconds)),
            suspend_seconds=int(seconds("SUSPEND", cls.suspend_seconds)),
            capacity_seconds=seconds("NO_CAPACITY", cls.capacity_seconds),
            bootstrap_seconds=seconds("BOOTSTRAP", cls.bootstrap_seconds),
            spot_notice_seconds=seconds("SPOT_NOTICE", cls.spot_notice_seconds),
            protected_failures=int(
                environ.get("TRAINYARD_LOCAL_PROTECTED_FAILURES", str(cls.protected_failures))
            ),
            duplicate_events=environ.get("TRAINYARD_LOCAL_DUPLICATE_EVENTS") == "1",
            capacity=Capacity(
                filter(None, environ.get("TRAINYARD_LOCAL_WITHOUT_CAPACITY", "").split(","))
            ),
        )

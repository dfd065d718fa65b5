"""What tests and demos may want otherwise of local training jobs.

Each is an environment variable of the server, TRAINYARD_LOCAL_JOB_...
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "TRAINYARD_LOCAL_JOB_"
#: Beside the environment of the server, made by `make setup-trainers`.
ENVIRONMENT = ".venv-training-jobs"


@dataclass(frozen=True)
class JobSettings:
    """Times in seconds; those of a stop and of a spot notice are AWS's own."""

    stop_seconds: float = 120.0
    spot_notice_seconds: float = 120.0
    sync_seconds: float = 1.0
    #: A job waits so long for capacity that is not there, if nothing else limits it.
    capacity_seconds: float = 60.0
    #: Instances that come from no warm pool take so long; AWS's take minutes.
    start_seconds: float = 0.0
    #: The interpreter that is there in the place of an image's.
    python: Path = Path(sys.prefix).with_name(ENVIRONMENT) / "bin" / "python"
    #: Instance types of which there is none.
    without_capacity: frozenset[str] = frozenset()

    @classmethod
    def from_env(cls, environment: Mapping[str, str] = os.environ) -> JobSettings:
        def seconds(name: str, default: float) -> float:
            return float(environment.get(_PREFIX + name, default))

        types = environment.get("TRAINYARD_LOCAL_WITHOUT_CAPACITY", "")
        return cls(
            stop_seconds=seconds("STOP_SECONDS", cls.stop_seconds),
            spot_notice_seconds=seconds("SPOT_NOTICE_SECONDS", cls.spot_notice_seconds),
            sync_seconds=seconds("SYNC_SECONDS", cls.sync_seconds),
            capacity_seconds=seconds("CAPACITY_SECONDS", cls.capacity_seconds),
            start_seconds=seconds("START_SECONDS", cls.start_seconds),
            python=Path(environment.get(_PREFIX + "PYTHON", cls.python)),
            without_capacity=frozenset(filter(None, types.split(","))),
        )

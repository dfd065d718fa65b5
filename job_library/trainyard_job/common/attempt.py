"""What a process of a run must know about its attempt; it reads that once from the environment that
`launch` sets.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import places
from .exits import ConfigError


def _number(environment: Mapping[str, str], name: str, *, whole: bool = False) -> float | None:
    text = environment.get(name, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf or (whole and not value.is_integer()):
        raise ConfigError(
            f"{name}: '{text}' is not a {'whole ' if whole else ''}number above 0; unset it or "
            "give one"
        )
    return value


#: Expected between two failures of a job of which nothing is known.
DAY_SECONDS = 86400.0


@dataclass(frozen=True)
class Attempt:
    """One attempt of a run, and when it commits checkpoints. Times are in seconds.

    With `every_auto` the time between two checkpoints follows from what one costs and from
    `seconds_between_failures` of the whole job.
    """

    run_id: str
    number: int
    run_dir: Path
    attempt_dir: Path
    checkpoint_dir: Path
    every_seconds: float | None = None
    every_steps: int | None = None
    keep: int = 3
    every_auto: bool = False
    seconds_between_failures: float | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Attempt:
        """The attempt of this process; outside Trainyard a run of its own below ./trainyard-run.

        With neither TRAINYARD_CHECKPOINT_EVERY_SECONDS nor _STEPS a checkpoint is due every 60
        seconds.
        """
        env = os.environ if environment is None else environment
        run_dir = Path(env.get("TRAINYARD_RUN_DIR") or "trainyard-run").absolute()
        number = int(_number(env, "TRAINYARD_ATTEMPT", whole=True) or 1)
        auto = env.get("TRAINYARD_CHECKPOINT_EVERY_SECONDS") == "auto"
        seconds = None if auto else _number(env, "TRAINYARD_CHECKPOINT_EVERY_SECONDS")
        steps = _number(env, "TRAINYARD_CHECKPOINT_EVERY_STEPS", whole=True)
        return cls(
            run_id=env.get("TRAINYARD_RUN_ID") or "local",
            number=number,
            run_dir=run_dir,
            attempt_dir=Path(
                env.get("TRAINYARD_ATTEMPT_DIR") or run_dir / places.ATTEMPTS / str(number)
            ).absolute(),
            checkpoint_dir=Path(
                env.get("TRAINYARD_CHECKPOINT_DIR") or run_dir / places.CHECKPOINTS
            ).absolute(),
            every_seconds=60.0 if seconds is None and steps is None and not auto else seconds,
            every_steps=None if steps is None else int(steps),
            keep=int(_number(env, "TRAINYARD_CHECKPOINT_KEEP", whole=True) or 3),
            every_auto=auto,
            seconds_between_failures=_number(env, "TRAINYARD_SECONDS_BETWEEN_FAILURES")
            or DAY_SECONDS,
        )

"""Weights & Biases by its own package, which the job's environment must have."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from .tracker import Point, Refused, Unreachable


class Wandb:
    """One run there for all attempts of a run here: it has the same id."""

    def __init__(self, run_id: str, environment: Mapping[str, str]) -> None:
        self._id = environment.get("WANDB_RUN_ID") or run_id
        self._name = environment.get("WANDB_NAME") or run_id
        self._project = environment.get("WANDB_PROJECT") or "trainyard"
        self._run: Any = None
        try:
            self._wandb: Any = importlib.import_module("wandb")
        except ImportError as error:
            raise Refused(
                f"the package wandb cannot be imported ({error}); put it into the job's "
                "environment (job.pythonEnvironment), or unset WANDB_API_KEY and WANDB_MODE"
            ) from None

    def begin(self) -> None:
        try:
            self._run = self._wandb.init(
                project=self._project,
                id=self._id,
                name=self._name,
                resume="allow",
                settings=self._wandb.Settings(console="off"),
            )
        except (self._wandb.errors.UsageError, self._wandb.errors.AuthenticationError) as error:
            raise Refused(f"{error}; look at WANDB_API_KEY") from None
        except (self._wandb.Error, OSError) as error:
            raise Unreachable(str(error)) from None

    def add(self, points: Sequence[Point]) -> None:
        """wandb sends them in a process of its own, and tries again by itself."""
        try:
            for point in points:
                self._run.log(dict(point.values), step=point.step)
        except Exception as error:  # noqa: BLE001 - see _gone
            raise _gone(error) from None

    def end(self, how: str) -> None:
        try:
            self._run.finish(exit_code=0 if how == "FINISHED" else 1)
        except Exception as error:  # noqa: BLE001 - see _gone
            raise _gone(error) from None


def _gone(error: Exception) -> Refused:
    """wandb has errors of many classes for it, and goes on with none of them."""
    return Refused(f"its own process is gone ({str(error) or type(error).__name__})")

"""Which checkpoint had the smallest validation loss: it is kept beside the newest ones."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from trainyard_job.checkpoints.checkpoint import checkpoint_name, holding_fence
from trainyard_job.common import places
from trainyard_job.common.attempt import Attempt
from trainyard_job.common.exits import CheckpointFailed, Fenced
from trainyard_job.common.files import write_json

from ..checkpoints.checkpointer import Checkpointer

#: In a checkpoint and in the final model: {"last": {step, loss}, "best": {step, loss, checkpoint}}.
NAME = "validation.json"


class Best:
    """What validations have shown so far, the same on all ranks.

    Until the new best checkpoint is there, the one before is kept, too: its save may fail.
    """

    def __init__(self, attempt: Attempt, checkpoints: Checkpointer) -> None:
        self._attempt, self._checkpoints = attempt, checkpoints
        self._state: dict[str, Any] = {}
        self._before: str | None = None

    @property
    def name(self) -> str | None:
        """The best checkpoint's directory."""
        return self._state["best"]["checkpoint"] if self._state.get("best") else None

    def restore(self, checkpoint: Path) -> None:
        """Go on with what a checkpoint knows. Raises ValueError and LookupError."""
        try:
            state = json.loads((checkpoint / NAME).read_bytes())
        except FileNotFoundError:
            return
        if state.get("best"):
            _ = str(state["best"]["checkpoint"]), float(state["best"]["loss"])
        self._state = state
        self._spare()

    def validated(self, step: int, loss: float) -> bool:
        """Note a validation; whether this step is the best so far, and has to be saved."""
        self._state["last"] = {"step": step, "loss": loss if math.isfinite(loss) else None}
        best = self._state.get("best")
        if not math.isfinite(loss) or (best and loss >= best["loss"]):
            return False
        self._before = self.name
        name = checkpoint_name(step, self._attempt.number)
        self._state["best"] = {"step": step, "loss": loss, "checkpoint": name}
        return True

    def before_save(self, rank: int) -> None:
        """Say which checkpoints are to be kept, to those who prune: this trainer and the agent.

        Only the first rank prunes. A best checkpoint that is being written is not there yet.
        """
        if self.name is None or rank:
            return
        if self._before and (self._attempt.checkpoint_dir / self.name).is_dir():
            self._before = None
        self._spare()
        document = {"best": self._state["best"], "keep": self._kept()}
        try:
            with holding_fence(self._attempt):
                write_json(self._attempt.run_dir / places.BEST, document)
        except (OSError, Fenced, CheckpointFailed) as error:  # the save itself will say it
            print(f"trainyard: {places.BEST} is not written: {error}", file=sys.stderr, flush=True)

    def _kept(self) -> list[str]:
        return [name for name in (self.name, self._before) if name]

    def _spare(self) -> None:
        paths = (self._attempt.checkpoint_dir / name for name in self._kept())
        self._checkpoints.keep(frozenset(paths))

    def files(self) -> dict[str, object]:
        """For the first rank's part of a checkpoint."""
        if not self._state:
            return {}
        return {NAME: (json.dumps(self._state, indent=1) + "\n").encode()}

    def __str__(self) -> str:
        best = self._state.get("best")
        return f"the best is {best['checkpoint']}, with {best['loss']:.6f}" if best else ""

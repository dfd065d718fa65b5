"""Tells the node agent where training stands: `progress.json` of the attempt, replaced atomically."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any


class Progress:
    """Writes the last finished step; rank 0 only. At most about ten times a second, but the first step and the last at once."""

    def __init__(self, attempt_dir: Path, *, world_size: int, resumed_from: int | None, every_seconds: float = 0.1) -> None:
        self._path = attempt_dir / "progress.json"
        self._world_size = world_size
        self._resumed_from = resumed_from
        self._every = every_seconds
        self._first_step_at: float | None = None
        self._written = -math.inf
        self._failed = False
        attempt_dir.mkdir(parents=True, exist_ok=True)

    def step(self, step: int, loss: float | None, *, last: bool = False) -> None:
        """Report that `step` is finished."""
        first = self._first_step_at is None
        if first:
            self._first_step_at = time.time()
        if not first and not last and time.monotonic() - self._written < self._every:
            return
        self._written = time.monotonic()
        self._replace(
            {
                "step": step,
                # NaN and infinity are not JSON: a loss that is not finite is reported as none.
                "loss": loss if loss is not None and math.isfinite(loss) else None,
                "at": time.time(),
                "resumedFrom": self._resumed_from,
                "firstStepAt": self._first_step_at,
                "worldSize": self._world_size,
            }
        )

    def _replace(self, document: dict[str, Any]) -> None:
        # No fsync: progress is only worth anything while the process lives.
        temporary = self._path.with_name(".progress.json.tmp")
        try:
            temporary.write_text(json.dumps(document), encoding="utf-8")
            os.replace(temporary, self._path)
            self._failed = False
        except OSError as error:  # a full disk, which checkpoints decide about: training is worth more than its report
            if not self._failed:
                print(f"trainyard: progress cannot be reported from step {document['step']} on: {error}", file=sys.stderr, flush=True)
            self._failed = True

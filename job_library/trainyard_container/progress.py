"""Reads what the program says of its steps, and reports the first one of this attempt."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from trainyard_contracts import places

from .events import moment
from .publishing import Report

_MOST_BYTES = 64 * 1024


class Progress:
    """Of the first host, where rank 0 writes."""

    def __init__(self, attempt_dir: Path, report: Report) -> None:
        self._path, self._report = attempt_dir / places.PROGRESS, report
        self._stepped = False
        self.step: int | None = None
        self.loss: float | None = None

    def look(self) -> bool:
        """Take up the newest step; whether it was the attempt's first."""
        said = self._read()
        step, loss = said.get("step"), said.get("loss")
        if not isinstance(step, int) or step < 0:
            return False
        self.step = step
        self.loss = float(loss) if isinstance(loss, int | float) else None
        first = said.get("firstStepAt")
        if self._stepped or not isinstance(first, int | float):
            return False
        self._stepped = True
        self._report(
            "AttemptStepped",
            step=step,
            resumedFrom=said.get("resumedFrom"),
            steppedAt=moment(datetime.fromtimestamp(first, timezone.utc)),
        )
        return True

    def _read(self) -> dict[str, Any]:
        try:
            with open(self._path, "rb") as stream:
                said = json.loads(stream.read(_MOST_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
        return dict(said) if isinstance(said, dict) else {}

"""The metrics of an attempt as curves in one small file, whatever number of steps it has."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .files import write_text

#: Points of one set of names; with more of them every second one is left out.
MOST_POINTS = 2000
#: Names in one report, and sets of names in one attempt.
MOST_NAMES, MOST_SETS = 100, 20
_WRITE_SECONDS = 2.0


@dataclass
class _Set:
    """The points of reports with the same names. Every `stride`th report is kept."""

    stride: int = 1
    seen: int = 0
    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        kept, self.seen = self.seen % self.stride == 0, self.seen + 1
        if kept:
            self.lines.append(line)
        if len(self.lines) >= MOST_POINTS:
            self.lines, self.stride = self.lines[::2], 2 * self.stride


class Curves:
    """Writes `metrics.jsonl`: a line for each report that is kept, `{step, at, metrics}`, with `at`
    in seconds since the epoch and null for a number that is not finite.

    Reports with the same names are one set, and each set is thinned out for itself: a rare metric
    keeps its points beside a frequent one. What an earlier start of the same attempt wrote stays.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sets: dict[tuple[str, ...], _Set] = {}
        self._waiting = False
        self._written = -math.inf
        self._failed = False
        self._read()

    def add(self, step: int, metrics: Mapping[str, float]) -> None:
        """Metrics of a finished step. What is too much for the file is left out, and said once."""
        names = tuple(sorted(metrics))
        if names not in self._sets and len(self._sets) >= MOST_SETS:
            self._say(f"more than {MOST_SETS} sets of names; {', '.join(names)[:200]} is left out")
            return
        values = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
        line = {"step": step, "at": round(time.time(), 3), "metrics": values}
        self._keep(names, json.dumps(line))
        self._waiting = True
        if time.monotonic() - self._written >= _WRITE_SECONDS:
            self.flush()

    def _keep(self, names: tuple[str, ...], line: str) -> None:
        self._sets.setdefault(names, _Set()).add(line)

    def _read(self) -> None:
        try:
            with open(self._path, encoding="utf-8") as lines:
                for line in lines:
                    self._keep(tuple(sorted(json.loads(line)["metrics"])), line.strip())
        except (OSError, ValueError, KeyError, TypeError):  # none, or no file of ours
            return

    def flush(self) -> None:
        """Replace the file by what is known."""
        if not self._waiting:
            return
        self._written, self._waiting = time.monotonic(), False
        lines = [line for kept in self._sets.values() for line in kept.lines]
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_text(self._path, "".join(f"{line}\n" for line in lines), durable=False)
        except OSError as error:
            self._say(str(error))

    def _say(self, reason: str) -> None:
        """Training is worth more than its report."""
        if not self._failed:
            text = f"trainyard: metrics cannot be reported in full: {reason}"
            print(text, file=sys.stderr, flush=True)
        self._failed = True

"""The metrics of an attempt as curves in one small file, whatever number of steps it has."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from .files import write_text

#: Points of one set of names, beside its extremes and its newest; with more of them every second
#: one is left out.
MOST_POINTS = 2000
#: Names in one report, and sets of names in one attempt.
MOST_NAMES, MOST_SETS = 100, 20
_WRITE_SECONDS = 2.0


class _Line(NamedTuple):
    """A report as it is written; `number` counts those with the same names."""

    number: int
    text: str


@dataclass
class _Set:
    """The points of reports with the same names. Every `stride`th report is kept, and so are the
    newest, and the lowest and the highest of each name.
    """

    stride: int = 1
    seen: int = 0
    lines: list[_Line] = field(default_factory=list)
    newest: _Line | None = None
    lowest: dict[str, tuple[float, _Line]] = field(default_factory=dict)
    highest: dict[str, tuple[float, _Line]] = field(default_factory=dict)

    def add(self, text: str, values: Mapping[str, float | None]) -> None:
        self.newest = line = _Line(self.seen, text)
        kept, self.seen = self.seen % self.stride == 0, self.seen + 1
        if kept:
            self.lines.append(line)
        if len(self.lines) >= MOST_POINTS:
            self.lines, self.stride = self.lines[::2], 2 * self.stride
        for name, value in values.items():
            if value is not None:
                if name not in self.lowest or value < self.lowest[name][0]:
                    self.lowest[name] = (value, line)
                if name not in self.highest or value > self.highest[name][0]:
                    self.highest[name] = (value, line)

    def kept(self) -> list[str]:
        """In the order of the reports."""
        extremes = [line for _, line in (*self.lowest.values(), *self.highest.values())]
        newest = [] if self.newest is None else [self.newest]
        return [line.text for line in sorted({*self.lines, *extremes, *newest})]


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
        self._keep(names, json.dumps(line), values)
        self._waiting = True
        if time.monotonic() - self._written >= _WRITE_SECONDS:
            self.flush()

    def _keep(self, names: tuple[str, ...], line: str, values: Mapping[str, float | None]) -> None:
        self._sets.setdefault(names, _Set()).add(line, values)

    def _read(self) -> None:
        try:
            with open(self._path, encoding="utf-8") as lines:
                for line in lines:
                    values = json.loads(line)["metrics"]
                    self._keep(tuple(sorted(values)), line.strip(), values)
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
        ):  # none, or no file of ours
            return

    def flush(self) -> None:
        """Replace the file by what is known."""
        if not self._waiting:
            return
        self._written, self._waiting = time.monotonic(), False
        lines = [line for kept in self._sets.values() for line in kept.kept()]
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

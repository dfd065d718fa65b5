"""Follows files in which a program keeps its metrics: the newest step, and the loss beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from trainyard_contracts import places

#: A look reads so much of a file at most.
LOOK_BYTES = 64 * 1024
#: So many of the newest files of a directory are read.
MOST_FILES = 8
#: So many names are looked at to find them, once in so many looks.
MOST_NAMES = 5000
SEARCH_LOOKS = 20
_LOSS = re.compile(r"(?i)loss")
_NOT_TRAINING = re.compile(r"(?i)(?:^|[^a-z])(?:val|valid|validation|eval|test)(?:$|[^a-z])")


class MetricFile(Protocol):
    """One file that grows."""

    def read(self) -> tuple[list[tuple[int, dict[str, float]]], bool]:
        """(steps with their values, whether there may be more). Raises OSError."""
        ...


class MetricFiles:
    """All files of one kind below a directory of the program's; `belongs`: whether a name is one's
    of them, `reader`: reads one, by the run's directory and its path.
    """

    def __init__(
        self,
        root: Path,
        name: str,
        belongs: Callable[[str], bool],
        reader: Callable[[Path, Path], MetricFile],
    ) -> None:
        self._root, self._name = root, name
        self._belongs, self._reader = belongs, reader
        self._files: dict[Path, MetricFile] = {}
        self._looks = 0
        self.step: int | None = None
        self.loss: float | None = None

    def look(self) -> bool:
        if self._looks % SEARCH_LOOKS == 0:
            self._search()
        self._looks += 1
        more = False
        for file in list(self._files.values()):
            try:
                found, there = file.read()
            except FileNotFoundError:
                continue
            more = more or there
            for step, values in found:
                self._take(step, values)
        return more

    def _take(self, step: int, values: dict[str, float]) -> None:
        losses = [
            value
            for tag, value in values.items()
            if _LOSS.search(tag) and not _NOT_TRAINING.search(tag)
        ]
        if self.step is None or step >= self.step:
            self.step = step
            self.loss = losses[0] if losses else self.loss

    def _search(self) -> None:
        found: list[tuple[float, Path]] = []
        seen = 0
        for base in (places.WORK, places.OUTPUT):
            for directory, _, names in os.walk(self._root / base / self._name):
                seen += len(names) + 1
                for name in names:
                    if self._belongs(name):
                        path = Path(directory, name)
                        found.append((path.lstat().st_mtime, path))
                if seen > MOST_NAMES:
                    break
        for _, path in sorted(found)[-MOST_FILES:]:
            if path not in self._files:
                self._files[path] = self._reader(self._root, path)

    def close(self) -> None:
        pass

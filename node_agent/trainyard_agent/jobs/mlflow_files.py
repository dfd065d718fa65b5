"""Reads steps and losses of the files in which MLflow keeps metrics, without MLflow.

`<directory>/<experiment>/<run>/metrics/<name>` has a line a value: time, value, step.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from trainyard_agent.host.job_files import read_tail
from trainyard_agent.jobs.log_steps import LARGEST_STEP, finite
from trainyard_contracts import places

#: The end of a metric's file that is read.
TAIL_BYTES = 4096
#: So many names are looked at.
MOST_NAMES = 5000
#: So many of the newest metrics are read in one look.
MOST_METRICS = 32
_LOSS = re.compile(r"(?i)(?<!val_)(?<!eval_)(?<!test_)(?<!valid_)(?<!validation_)loss$")


class MlflowFiles:
    """The newest run's metrics below a directory of the program's."""

    def __init__(self, root: Path, name: str) -> None:
        self._root, self._name = root, name
        self._seen: dict[Path, int] = {}
        self.step: int | None = None
        self.loss: float | None = None

    def look(self) -> bool:
        changed = False
        for modified, path in self._metrics()[-MOST_METRICS:]:
            if self._seen.get(path) == modified:
                continue
            self._seen[path] = modified
            changed = self._take(path) or changed
        return changed

    def _metrics(self) -> list[tuple[int, Path]]:
        """Files of metrics with their times, oldest first."""
        found, seen = [], 0
        for base in (places.WORK, places.OUTPUT):
            top = self._root / base / self._name
            for directory, directories, names in os.walk(top):
                directories[:] = [name for name in directories if name != "artifacts"]
                seen += len(names) + 1
                if "metrics" in Path(directory).relative_to(top).parts:
                    paths = [Path(directory, name) for name in names]
                    found += [(path.lstat().st_mtime_ns, path) for path in paths]
                if seen > MOST_NAMES:
                    break
        return sorted(found)

    def _take(self, path: Path) -> bool:
        lines = read_tail(self._root, path, TAIL_BYTES).decode(errors="replace").split("\n")
        # The last piece is '' after a whole line, and else a line that is being written.
        for line in reversed(lines[:-1]):
            words = line.split(" ")
            if len(words) < 3 or not words[2].isdecimal() or int(words[2]) > LARGEST_STEP:
                continue
            step, value = int(words[2]), finite(words[1])
            self.step = max(step, self.step or 0)
            if value is not None and _LOSS.search(path.name):
                self.loss = value
            return True
        return False

    def close(self) -> None:
        pass

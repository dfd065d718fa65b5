"""Brings what the program makes beside its checkpoints to S3 while it trains, so that a lost host
loses one interval of it at most.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from .links import Link
from .publishing import Report
from .results import Results
from .store import Store
from .surroundings import Surroundings


class Syncing:
    """Of one host, in a thread; the first one tells of it.

    Of one name the first host that has it sends its own, as at the end.
    """

    def __init__(
        self,
        results: Results,
        store: Store,
        where: Surroundings,
        link: Link,
        every: float,
        report: Report,
    ) -> None:
        """`store`: that of `results`, and of nobody else."""
        self._results, self._store, self._where = results, store, where
        self._link, self._every, self._report = link.apart(), every, report
        self._told = ""
        self._last: float | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="syncing")

    def start(self) -> Syncing:
        self._thread.start()
        return self

    def stop(self) -> None:
        """What is on its way is sent, and nothing else is begun."""
        self._over.set()
        self._store.hurry.set()
        self._thread.join()
        self._store.hurry.clear()

    def _run(self) -> None:
        pause = self._every
        while not self._over.wait(pause):
            began = time.monotonic()
            self.look()
            pause = max(self._every, time.monotonic() - began)  # training comes first

    def look(self) -> None:
        """One pass."""
        try:
            problem = self._pass()
        except OSError as error:
            problem = str(error)
        if not self._where.is_first:
            return
        if not problem:
            self._last = time.monotonic()
        if problem and self._told != "failed":
            behind = None if self._last is None else time.monotonic() - self._last
            told = {"trouble": "other", "reason": problem[:500], "behindSeconds": behind}
            self._report("SyncFailed", **told)
            self._told = "failed"
        elif not problem and self._told != "synced" and (size := self._size())[0]:
            objects, total = size
            told = {"everySeconds": self._every, "objects": objects, "bytes": total}
            self._report("ResultsSynced", **told, leftOut=self._results.left_out)
            self._told = "synced"

    def _pass(self) -> str:
        """'' or why something is not in S3. Raises OSError."""
        names, changed = self._results.looked()
        self._link.note(f"has/{self._where.host}", names)
        taken = {name for host in self._before() for name in self._read(f"has/{host}") or ()}
        left = [name for name in changed if name not in taken]
        problem = self._results.send(left, until=self._over.is_set)
        self._link.note(f"synced/{self._where.host}", self._results.size())
        return problem

    def _before(self) -> Iterator[str]:
        """Hosts whose files come first."""
        for host in self._where.hosts:
            if host == self._where.host:
                return
            yield host

    def _read(self, name: str) -> Any:
        return self._link.read(name)

    def _size(self) -> tuple[int, int]:
        """Files and bytes of all hosts."""
        said = [self._read(f"synced/{host}") or (0, 0) for host in self._where.hosts]
        return sum(one[0] for one in said), sum(one[1] for one in said)

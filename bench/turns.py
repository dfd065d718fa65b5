"""Jobs of two ranks that run by turns, so that a host that slows down slows all of them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType

#: A job that takes longer for its turn hangs.
TURN_SECONDS = 600.0
LOOK_SECONDS = 0.02


class Job:
    """Ranks of one program on this machine, each a process group of its own.

    `times` reads the ends of its steps (seconds since the epoch).
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        environment: Mapping[str, str],
        times: Callable[[], list[float]],
        *,
        log: Path,
        port: int,
        ranks: int = 2,
    ) -> None:
        self.name, self._times, self._log = name, times, log
        shared = {
            **os.environ,
            **environment,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "LOCAL_WORLD_SIZE": str(ranks),
        }
        with log.open("wb") as output:
            self._ranks = [
                subprocess.Popen(
                    argv,
                    env={
                        **shared,
                        "RANK": str(rank),
                        "LOCAL_RANK": str(rank),
                        "WORLD_SIZE": str(ranks),
                    },
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                for rank in range(ranks)
            ]

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._signal(signal.SIGKILL)
        for rank in self._ranks:
            rank.wait()

    def turn(self, steps: int) -> list[float]:
        """Let it take so many steps, then stop it; seconds of each.

        The step in which it was last stopped does not count.
        """
        known = len(self._times())
        deadline = time.monotonic() + TURN_SECONDS
        self._signal(signal.SIGCONT)
        while len(ends := self._times()[known:]) < steps + 1:
            if any(rank.poll() is not None for rank in self._ranks) or time.monotonic() > deadline:
                raise SystemExit(
                    f"{self.name} ended or hung after {known + len(ends)} "
                    f"steps:\n{self._log.read_text(errors='replace')[-4000:]}"
                )
            time.sleep(LOOK_SECONDS)
        self._signal(signal.SIGSTOP)
        return [after - before for before, after in pairwise(ends[: steps + 1])]

    def _signal(self, number: signal.Signals) -> None:
        for rank in self._ranks:
            if rank.poll() is None:
                os.killpg(rank.pid, number)

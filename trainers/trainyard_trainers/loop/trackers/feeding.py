"""What training itself does for the trackers: starts their processes, and writes to their pipes."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Literal

#: Between two points, in seconds.
EVERY_SECONDS = 1.0
#: So long the end of a training that is complete waits for the last points; any other end waits
#: for a moment only.
END_SECONDS, OTHER_END_SECONDS = 10.0, 2.0
#: More than any line has. Linux writes so much to a pipe whole or not at all.
_LINE_BYTES = 4096

Ending = Literal["FINISHED", "FAILED", "KILLED"]


def asked(environment: Mapping[str, str]) -> list[str]:
    """The trackers that the environment names."""
    found = ["mlflow"] if environment.get("MLFLOW_TRACKING_URI") else []
    mode = environment.get("WANDB_MODE", "")
    if mode != "disabled" and (environment.get("WANDB_API_KEY") or mode == "offline"):
        found.append("wandb")
    return found


class Trackers:
    """Those of one attempt; rank 0 only."""

    def __init__(self, run_id: str, environment: Mapping[str, str] | None = None) -> None:
        names = asked(os.environ if environment is None else environment)
        self._fed = [_Fed(name, run_id, environment) for name in names]
        self._written = -math.inf

    def add(self, step: int, values: Mapping[str, float], *, last: bool = False) -> None:
        """Send the values that are finite numbers, once a second at most."""
        now = time.monotonic()
        if not self._fed or (not last and now - self._written < EVERY_SECONDS):
            return
        self._written = now
        known = {name: value for name, value in values.items() if math.isfinite(value)}
        for fed in self._fed:
            fed.write({"step": step, "at": time.time(), "values": known})

    def end(self, how: Ending) -> None:
        """Let them send what they have, for a while."""
        for fed in self._fed:
            fed.write({"end": how})
        seconds = END_SECONDS if how == "FINISHED" else OTHER_END_SECONDS
        deadline = time.monotonic() + seconds
        for fed in self._fed:
            fed.close(deadline)


class _Fed:
    """A tracker's process; one that cannot be started, or has ended, gets nothing."""

    def __init__(self, name: str, run_id: str, environment: Mapping[str, str] | None) -> None:
        self._name = name
        command = [sys.executable, "-m", "trainyard_trainers.loop.trackers.process", name, run_id]
        self._process: subprocess.Popen[bytes] | None = None
        try:
            # A group of its own: a library may start processes, and all of them end with it.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, env=environment, start_new_session=True
            )
        except OSError as error:
            self._say(f"cannot be started: {error}")
            return
        assert self._process.stdin is not None
        self._pipe = self._process.stdin.fileno()
        os.set_blocking(self._pipe, False)

    def write(self, line: Mapping[str, object]) -> None:
        body = json.dumps(line).encode() + b"\n"
        if self._process is None or len(body) > _LINE_BYTES:
            return
        # It has ended and said why, or cannot keep up.
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            os.write(self._pipe, body)

    def close(self, deadline: float) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._say("did not take the last points in time")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _say(self, text: str) -> None:
        print(f"trainyard: the tracker {self._name} {text}", file=sys.stderr, flush=True)

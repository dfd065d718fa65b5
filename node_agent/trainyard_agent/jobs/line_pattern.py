"""Matches a user's regular expression in a process of its own, which a bad one cannot outlive.

A regular expression may take years for one line. The process ends itself by a timer.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from trainyard_agent.jobs.log_steps import LARGEST_STEP, LINE_CHARACTERS, finite

log = logging.getLogger(__name__)

#: So long the expression may take for the lines of one look.
MATCH_SECONDS = 2
#: A pause between two processes.
PAUSE_SECONDS = 2.0
#: After so many looks that took too long the expression is given up.
MOST_FAILURES = 3
#: The pipe to a process takes so much without waiting for it.
_CHUNK_BYTES = 48 * 1024

#: No module of ours is imported there. The alarm's own action ends the process.
_CHILD = f"""
import json, re, signal, sys
signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.alarm({MATCH_SECONDS})
pattern, lines = json.load(sys.stdin)
found, search = [None, None], re.compile(pattern).search
for line in lines:
    match = search(line)
    if match:
        said = match.groupdict()
        found = [said.get("step") or found[0], said.get("loss") or found[1]]
json.dump(found, sys.stdout)
"""


class LinePattern:
    """One user's expression on one attempt's log. No call of it waits."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._lines: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._due, self._failures = 0.0, 0

    @property
    def given_up(self) -> bool:
        return self._failures >= MOST_FAILURES

    def look(self, lines: Sequence[str]) -> tuple[int | None, float | None]:
        """Hand lines over; the newest step and loss that earlier ones said, None for neither."""
        self._lines = [*self._lines, *(line[:LINE_CHARACTERS] for line in lines)][-200:]
        found = self._answer()
        waits = self._process is not None or time.monotonic() < self._due
        if self._lines and not waits and not self.given_up:
            self._ask()
        return found

    def _ask(self) -> None:
        body, taken = b"", list(self._lines)
        while len(body := json.dumps([self._pattern, taken]).encode()) > _CHUNK_BYTES:
            taken = taken[len(taken) // 2 + 1 :]
        self._lines = []
        self._due = time.monotonic() + PAUSE_SECONDS
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            assert self._process.stdin is not None
            self._process.stdin.write(body)
            self._process.stdin.close()
        except OSError as error:
            log.warning("progress.regex cannot be matched just now: %s", error)

    def _answer(self) -> tuple[int | None, float | None]:
        process = self._process
        if process is None or process.poll() is None:
            return None, None
        self._process = None
        assert process.stdout is not None
        with process.stdout as stream:
            body = stream.read()
        if process.returncode != 0:
            self._failures += 1
            log.warning("progress.regex took too long or failed: %d", process.returncode)
            return None, None
        self._failures = 0
        return _numbers(body)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _numbers(body: bytes) -> tuple[int | None, float | None]:
    try:
        step, loss = json.loads(body)
    except ValueError:
        return None, None
    return _step(step), finite(loss) if isinstance(loss, str) else None


def _step(text: Any) -> int | None:
    """A step as a program prints it: 1,200 is twelve hundred."""
    digits = text.replace(",", "").replace("_", "") if isinstance(text, str) else ""
    if not digits.isdecimal() or len(digits) > 13:
        return None
    return min(int(digits), LARGEST_STEP)

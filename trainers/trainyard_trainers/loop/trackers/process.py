"""A tracker's process: reads points from its standard input until that ends, and hands them on."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from trainyard_job.common.signals import FORWARDED

from .mlflow import Mlflow
from .tracker import Point, Refused, Tracker, Unreachable
from .wandb import Wandb

TRACKERS: Mapping[str, Callable[[str, Mapping[str, str]], Tracker]] = {
    "mlflow": Mlflow,
    "wandb": Wandb,
}
#: So many points wait for a tracker that does not answer; then the oldest go.
MOST_POINTS = 10_000
#: So many go at once.
AT_ONCE = 100
#: Before the next try, growing.
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 1.0, 60.0
_MOMENT_SECONDS = 0.5


class Waiting:
    """The points that wait, and how training ended; '' while it goes on."""

    def __init__(self) -> None:
        self._points: deque[Point] = deque(maxlen=MOST_POINTS)
        self._changed = threading.Condition()
        self.end = ""

    def read(self, lines: IO[bytes], died: Callable[[], None]) -> None:
        """`died` is called where the lines end without a word of how training ended."""
        for line in lines:
            said = json.loads(line)
            with self._changed:
                if "end" in said:
                    self.end = said["end"]
                else:
                    self._points.append(Point(said["step"], said["at"], said["values"]))
                self._changed.notify()
            if self.end:
                return
        if not self.end:
            died()

    def first(self) -> list[Point]:
        """Some of them, oldest first, as soon as there are any; [] at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._points or self.end)
            return [self._points[at] for at in range(min(AT_ONCE, len(self._points)))]

    def done(self, points: Sequence[Point]) -> None:
        """They were taken; some of them may have made way for newer ones meanwhile."""
        with self._changed:
            taken = {id(point) for point in points}  # times may repeat, and clocks go back
            while self._points and id(self._points[0]) in taken:
                self._points.popleft()

    def pause(self, seconds: float) -> None:
        """So long, or until training ends; after that for a moment."""
        with self._changed:
            if self.end:
                self._changed.wait(min(seconds, _MOMENT_SECONDS))
            else:
                self._changed.wait_for(lambda: self.end, seconds)


class Sender:
    """Hands the points on, again and again where the tracker is not reached."""

    def __init__(self, name: str, waiting: Waiting) -> None:
        self._name, self._waiting, self._told = name, waiting, False

    def run(self, tracker: Tracker) -> None:
        """Raises Refused."""
        self._patiently(tracker.begin)
        while points := self._waiting.first():
            self._patiently(lambda points=points: tracker.add(points))  # type: ignore[misc]
            self._waiting.done(points)
        self._patiently(lambda: tracker.end(self._waiting.end))

    def _patiently(self, call: Callable[[], None]) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                call()
                return
            except Unreachable as error:
                if not self._told:
                    say(self._name, f"is not reached: {error}; training goes on")
                self._told = True
            self._waiting.pause(pause)
            pause = min(LAST_PAUSE_SECONDS, 2 * pause)


def say(name: str, text: str) -> None:
    print(f"trainyard: the tracker {name} {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    name, run_id = arguments
    for number in (*FORWARDED, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # they are meant for training, whose end ends us
    waiting = Waiting()
    reading = (sys.stdin.buffer, lambda: os._exit(0))
    threading.Thread(target=waiting.read, args=reading, daemon=True).start()
    try:
        Sender(name, waiting).run(TRACKERS[name](run_id, os.environ))
    except Refused as error:
        say(name, f"takes no points: {error}. Training goes on")
        return 1
    return 0


if __name__ == "__main__":
    if code := main(sys.argv[1:]):
        # A thread still reads: Python would abort where it waits for that one's lock at its end.
        os._exit(code)

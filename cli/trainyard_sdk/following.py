"""Flows that follow a run to its end: its status, its timeline and its log.

They ask again where they were when the API was away for a while, and never change the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from trainyard_contracts.rank_logs import parted

from .answers import ClusterView, RunView, TimelineEntry
from .client import RETRIED, Client, Json
from .flows import Ask, Flow, Give, Pause
from .problems import ApiProblem, InvalidInput, NotInTime, SdkError, Unreachable

R = TypeVar("R")
POLL_SECONDS = 2.0
#: So long may the API be away, or throttle, before following ends; the run itself does not mind.
PATIENCE_SECONDS = 300.0
TERMINAL = frozenset({"Succeeded", "Failed", "Cancelled"})
#: A cluster stays so until somebody does something.
SETTLED = frozenset({"Ready", "Stopped", "Failed", "Deleted"})


@dataclass(frozen=True)
class Pace:
    """How often the API is asked, and how long it may be away."""

    poll_seconds: float = POLL_SECONDS
    patience_seconds: float = PATIENCE_SECONDS


def patiently(call: Callable[[], R], pace: Pace) -> Flow[R]:
    """The call's answer, however often it takes. Raises what does not pass by waiting."""
    since: float | None = None
    while True:
        try:
            answer: R = yield Ask(call)
            return answer
        except (Unreachable, ApiProblem) as error:
            if isinstance(error, ApiProblem) and error.status not in RETRIED:
                raise
            since = since or time.monotonic()
            if time.monotonic() - since >= pace.patience_seconds:
                raise
        yield Pause(pace.poll_seconds)


@contextmanager
def coming_back(words: str) -> Iterator[None]:
    """An error that ends the following says how to go on with it."""
    try:
        yield
    except SdkError as error:
        error.advise(words)
        raise


def back_to(run_id: str) -> str:
    return (
        f"Run {run_id} goes on. Come back with Trainyard().run('{run_id}').wait() "
        f"or: trainyard run watch {run_id}"
    )


def run_ended(client: Client, run_id: str, pace: Pace, timeout: float | None) -> Flow[RunView]:
    """Until the run has ended. Raises NotInTime after `timeout` seconds."""
    deadline = None if timeout is None else time.monotonic() + timeout
    with coming_back(back_to(run_id)):
        while True:
            asked = _in_time(lambda: client.run(run_id), pace, deadline, f"run {run_id}")
            run = RunView.read((yield from asked))
            if run.status in TERMINAL:
                return run
            yield _pause(pace, deadline, f"run {run_id} is {run.status}: {run.reason}")


def cluster_settled(
    client: Client, name: str, pace: Pace, timeout: float | None
) -> Flow[ClusterView]:
    """Until the cluster is ready, stopped, failed or deleted. Raises NotInTime."""
    deadline = None if timeout is None else time.monotonic() + timeout
    with coming_back(f"Look at it with: trainyard cluster show {name}"):
        while True:
            asked = _in_time(lambda: client.cluster(name), pace, deadline, f"cluster {name}")
            found = ClusterView.read((yield from asked))
            if found.status in SETTLED:
                return found
            yield _pause(pace, deadline, f"cluster {name} is {found.status}")


def _in_time(call: Callable[[], R], pace: Pace, deadline: float | None, what: str) -> Flow[R]:
    """The call's answer. Raises NotInTime where the API is away until the deadline."""
    if deadline is None:
        return (yield from patiently(call, pace))
    left = max(0.0, deadline - time.monotonic())
    pace = Pace(min(pace.poll_seconds, left), min(pace.patience_seconds, left))
    try:
        return (yield from patiently(call, pace))
    except (Unreachable, ApiProblem) as error:
        passes = isinstance(error, Unreachable) or error.status in RETRIED
        if passes and time.monotonic() >= deadline:
            raise NotInTime(
                "Not finished in time", f"of {what} nothing is known: {error}"
            ) from error
        raise


def _pause(pace: Pace, deadline: float | None, state: str) -> Pause:
    left = pace.poll_seconds if deadline is None else deadline - time.monotonic()
    if left <= 0:
        raise NotInTime("Not finished in time", state)
    return Pause(min(left, pace.poll_seconds))


def timeline(
    client: Client, run_id: str, pace: Pace, *, after: str | None, follow: bool
) -> Flow[None]:
    """Gives each entry once, oldest first, until the run has ended.

    With `after`, the id of an entry, those behind it. Raises InvalidInput if there is none such.
    """
    place = _Place(client, run_id, after)
    with coming_back(back_to(run_id)):
        while True:
            # The status first: what is written before the end is then in the pages.
            run = yield from patiently(lambda: client.run(run_id), pace)
            ended = run["status"] in TERMINAL
            more = True
            while more:
                entries, more = place.take((yield from patiently(place.page, pace)))
                for entry in entries:
                    yield Give(TimelineEntry.read(entry))
            place.check()
            if ended or not follow:
                return
            yield Pause(pace.poll_seconds)


class _Place:
    """Where a reader of a timeline is: the last page, which still grows, and what it has read."""

    def __init__(self, client: Client, run_id: str, after: str | None) -> None:
        self._client, self._run_id, self._after = client, run_id, after
        self._token: str | None = None
        self._seen: set[str] = set()

    def page(self) -> Json:
        return self._client.event_page(self._run_id, self._token)

    def take(self, page: Json) -> tuple[list[Json], bool]:
        """What is new in the page, and whether another one follows."""
        fresh = [entry for entry in page["events"] if entry["id"] not in self._seen]
        self._seen.update(entry["id"] for entry in fresh)
        self._token = page.get("nextToken") or self._token
        return [entry for entry in fresh if self._is_behind(entry)], bool(page.get("nextToken"))

    def _is_behind(self, entry: Json) -> bool:
        if self._after is None:
            return True
        if entry["id"] == self._after:
            self._after = None
        return False

    def check(self) -> None:
        """All pages were read, and the entry to begin behind has to be in one."""
        if self._after is not None:
            raise InvalidInput(
                "The timeline has no such entry",
                f"after: '{self._after[:200]}' is no id of an entry of run {self._run_id}",
                "Give the id of an entry that was read before, or none",
            )


@dataclass(frozen=True)
class Which:
    """Which log, and what of it."""

    lines: int = 100
    kind: str = "job"
    attempt: int | None = None
    contains: str = ""
    since_seconds: int | None = None
    rank: int | None = None
    node: str | None = None


def log_lines(client: Client, run_id: str, pace: Pace, which: Which) -> Flow[Json]:
    """Gives the log's tail and what is added to it, line by line, until the run ends; returns it.

    A new attempt's log follows the old one's. Of a node, what each of its ranks printed, with a
    heading wherever another one goes on.
    """
    began = time.monotonic()
    reader = _Reader(which)
    with coming_back(back_to(run_id)):
        while True:
            run = yield from patiently(lambda: client.run(run_id), pace)
            try:
                log = yield Ask(lambda: _tail(client, run_id, which, reader, began))
                for line in reader.take(log):
                    yield Give(line)
            except Unreachable:
                pass  # the next look shows whether the API is away for long
            if run["status"] in TERMINAL:
                return run
            yield Pause(pace.poll_seconds)


def _tail(client: Client, run_id: str, which: Which, reader: _Reader, began: float) -> Json:
    since = which.since_seconds
    return client.logs(
        run_id,
        attempt=which.attempt,
        lines=max(which.lines, 200) if reader.began else which.lines,
        kind=which.kind,
        since_seconds=since and since + int(time.monotonic() - began),
        rank=which.rank,
        node=which.node,
    )


class _Reader:
    """What of a log's tail was read, so that the next tail gives only what is new."""

    def __init__(self, which: Which) -> None:
        self._which = which
        self._seen: dict[str, list[str]] = {}
        self._attempt: int | None = None
        self._head = ""

    @property
    def began(self) -> bool:
        return bool(self._seen)

    def take(self, log: Json) -> Iterator[str]:
        if log["attempt"] != self._attempt:
            self._seen, self._attempt = {}, log["attempt"]
        text = log["text"]
        for head, tail in parted(text) if self._which.node else [("", text.splitlines())]:
            known = self._seen.get(head, [])
            new = [line for line in tail[overlap(known, tail) :] if self._which.contains in line]
            if new and head and head != self._head:
                yield head
                self._head = head
            yield from new
            self._seen[head] = list(tail) or known


def overlap(before: Sequence[str], now: Sequence[str]) -> int:
    """How many lines at the start of `now` were there before: they end with those of `before`."""
    for size in range(min(len(before), len(now)), 0, -1):
        if list(before[-size:]) == list(now[:size]):
            return size
    size = len(before)  # `now` may begin earlier
    ends = range(size + 1, len(now) + 1) if before else ()
    return next((end for end in ends if list(before) == list(now[end - size : end])), 0)

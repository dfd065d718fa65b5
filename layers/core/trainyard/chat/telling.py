"""What telling of runs in Slack needs, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from trainyard.chat.clicks import Claims
from trainyard.domain.thread_records import RunThread, SlackPause

#: Refusals of one message, not of the app or its channel. It is left as it is.
OF_MESSAGE = frozenset({
    "message_not_found", "cant_update_message", "edit_window_closed", "thread_not_found",
    "invalid_blocks", "invalid_blocks_format", "msg_too_long", "msg_blocks_too_long", "no_text",
    "restricted_action_thread_locked", "cannot_reply_to_message", "invalid_arguments",
})  # fmt: skip


class Calls(Protocol):
    """Slack's Web API."""

    def call(self, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Raises Limited, SlackRefused, RetryableError."""
        ...


class Threads(Protocol):
    """Threads of runs, and whether Slack wants to be left alone."""

    def wake(self, run_id: str, channel: str) -> None:
        """Open the run's thread, or note that something happened in it."""
        ...

    def get(self, run_id: str) -> RunThread | None: ...

    def open_ones(self, at_most: int) -> list[RunThread]:
        """Those that were shown longest ago come first."""
        ...

    def put(self, thread: RunThread) -> RunThread:
        """Raises ConflictError if another wrote it meanwhile."""
        ...

    def close(self, thread: RunThread) -> bool:
        """False if something happened since it was read: it stays open."""
        ...

    def pause(self) -> SlackPause | None: ...

    def put_pause(self, pause: SlackPause) -> None: ...


@dataclass(frozen=True)
class Telling:
    """What is needed beside the ports. `people` reads the list of Slack's people."""

    threads: Threads
    claims: Claims
    api: Calls
    channel: str
    people: Callable[[], str | None]


@dataclass(frozen=True)
class Told:
    """What became of a run's thread, for the log."""

    run_id: str
    result: str

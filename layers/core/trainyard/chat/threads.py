"""One message for each run in a channel, edited in place; its thread says what befell the run.

What is shown follows from the run as it is now. So an event that comes twice, late or out of order
changes nothing, and one that is lost is made up for by the look that open threads get each minute.
One that comes while another call shows the run is counted, and that call looks once more.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from trainyard.app.audit.own_decisions import audit_own
from trainyard.app.runs.run_costs import costs_of
from trainyard.app.runs.show_run import show_run
from trainyard.chat.clicks import Claims
from trainyard.chat.members import ListUnreadable, users_of
from trainyard.chat.thread_words import Said, replies, run_message, state_of
from trainyard.chat.web_api import Limited, SlackRefused
from trainyard.domain.approval_records import Approval
from trainyard.domain.errors import ApprovalNotFound, RunNotFound, TrainyardError
from trainyard.domain.records import Run, RunCost
from trainyard.domain.thread_records import RunThread, SlackPause, ThreadReply
from trainyard.ports import Ports
from trainyard_contracts.user_events import CHANGES, SOURCE

_LOG = logging.getLogger(__name__)
#: Between two edits of a message while its run is in the same state.
EDIT_SECONDS = 30
#: After a refusal of the app or the channel, Slack is asked again so much later.
REFUSED_SECONDS = 600
#: Threads that one look reads, and how long it goes on with the next one.
MOST_THREADS, LOOK_SECONDS = 200, 20
#: More replies than these are not kept, so that the item stays small; the end is always said.
MOST_REPLIES = 300
#: Looks of one call at a run to which more happens meanwhile.
MOST_LOOKS = 5
#: The result of a call that finds another at the same run.
IN_HAND = "in hand"
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


def tell(ports: Ports, telling: Telling, event: Mapping[str, Any]) -> list[Told]:
    """Of an event about a run, its thread; at any other call, all that are open."""
    if event.get("source") not in (SOURCE, CHANGES):
        return list(_all(ports, telling))
    detail = event.get("detail")
    run = detail.get("run") if isinstance(detail, Mapping) else None
    run_id = run.get("id") if isinstance(run, Mapping) else None
    if not isinstance(run_id, str) or not run_id:
        return []
    if telling.threads.get(run_id) is None and not _has_message(ports, run_id):
        return [Told(run_id, "none")]
    telling.threads.wake(run_id, telling.channel)
    return list(_untilquiet(ports, telling, run_id))


def _untilquiet(ports: Ports, telling: Telling, run_id: str) -> Iterator[Told]:
    """Look again as long as events come that found the run in this hand."""
    for _ in range(MOST_LOOKS):
        seen = telling.threads.get(run_id)
        told = tell_run(ports, telling, run_id)
        yield told
        now = telling.threads.get(run_id)
        if told.result == IN_HAND or seen is None or now is None or now.wakes == seen.wakes:
            return


def _has_message(ports: Ports, run_id: str) -> bool:
    """A member of an array has none: there may be thousands."""
    try:
        return ports.runs.get(run_id).array is None
    except RunNotFound:
        return False


def _all(ports: Ports, telling: Telling) -> Iterator[Told]:
    """One that cannot be shown keeps no other from it."""
    begun = ports.clock.now()
    for thread in telling.threads.open_ones(MOST_THREADS):
        if ports.clock.now() - begun > timedelta(seconds=LOOK_SECONDS):
            return
        try:
            told = tell_run(ports, telling, thread.run_id)
        except Exception as error:  # noqa: BLE001  (a defect met by one keeps no other waiting)
            _LOG.exception("the thread of %s is left as it is", thread.run_id)
            told = Told(thread.run_id, f"failed: {error!r}"[:300])
        yield told
        if told.result.startswith("paused"):
            return


def tell_run(ports: Ports, telling: Telling, run_id: str) -> Told:
    """Show the run as it is. Whatever Slack answers is no error: the next look tries again."""
    pause = telling.threads.pause()
    if pause is not None and ports.clock.now() < pause.until:
        return Told(run_id, f"paused until {pause.until:%H:%M:%S}")
    mark = f"thread-{run_id}"
    if not telling.claims.take(mark):
        return Told(run_id, IN_HAND)
    try:
        result = _Showing(ports, telling, pause).show(run_id)
    except Limited as limited:
        trouble = pause.trouble if pause is not None else ""
        return Told(run_id, paused(ports, telling, limited.seconds, trouble))
    except SlackRefused as refused:
        say_once(ports, telling, pause, refused.error)
        return Told(run_id, paused(ports, telling, REFUSED_SECONDS, refused.error))
    except TrainyardError as error:
        return Told(run_id, f"later: {error.detail}"[:300])
    finally:
        telling.claims.give_back(mark)
    return Told(run_id, result)


def paused(ports: Ports, telling: Telling, seconds: int, trouble: str) -> str:
    until = ports.clock.now() + timedelta(seconds=seconds)
    telling.threads.put_pause(SlackPause(until=until, trouble=trouble))
    return f"paused for {seconds} s: {trouble or 'too many calls'}"


def say_once(ports: Ports, telling: Telling, pause: SlackPause | None, error: str) -> None:
    """In the audit list; not again while the same trouble lasts, nor twice on one day."""
    if pause is not None and pause.trouble == error:
        return
    words = f"Slack refuses messages about runs: {error}. They wait until it takes them again."
    key = f"{telling.channel}-{error}-{ports.clock.now():%Y-%m-%d}"
    audit_own(ports, "slack.refused", f"slack/{telling.channel}", key=key, reason=words)


class _Showing:
    """One look at one thread. What Slack took is written down after each call."""

    def __init__(self, ports: Ports, telling: Telling, pause: SlackPause | None) -> None:
        self._ports, self._telling, self._pause = ports, telling, pause
        self._calls = 0

    def show(self, run_id: str) -> str:
        thread = self._telling.threads.get(run_id)
        if thread is None:
            return "none"
        try:
            run, latest = show_run(self._ports, run_id)
        except RunNotFound:
            self._telling.threads.close(thread)
            return "closed: the run is gone"
        if thread.channel != self._telling.channel:  # another is the stack's now
            thread = thread.changed(channel=self._telling.channel, ts="", shown="", replies=[])
        thread = self._message(thread, run, run_message(run, latest).wire_of_channel())
        for said in self._replies(run):
            thread = self._reply(thread, said)
        if run.terminal and self._telling.threads.close(thread):
            return f"closed after {self._calls} calls"
        return f"shown with {self._calls} calls"

    def _replies(self, run: Run) -> Iterator[Said]:
        return replies(run, self._approval(run), self._cost(run), self._mention(run))

    def _approval(self, run: Run) -> Approval | None:
        """That of this life, if the run needs one."""
        if run.approval is None:
            return None
        try:
            return self._ports.approvals.get(run.approval.id)
        except ApprovalNotFound:
            return None

    def _cost(self, run: Run) -> RunCost | None:
        if not run.terminal:
            return None
        return run.cost or costs_of(self._ports, run.id).cost

    def _mention(self, run: Run) -> str:
        """Of one who has one account in Slack; a list that cannot be read mentions nobody."""
        if run.status != "Failed" or run.created_by is None:
            return ""
        try:
            users = users_of(self._telling.people(), run.created_by)
        except ListUnreadable as unreadable:
            _LOG.error("nobody is mentioned: %s", unreadable.detail)
            return ""
        return f"<@{users.pop().partition('/')[2]}>" if len(users) == 1 else ""

    def _message(self, thread: RunThread, run: Run, wire: dict[str, Any]) -> RunThread:
        shown, now, state = _fingerprint(wire), self._ports.clock.now(), state_of(run)
        if thread.ts and shown == thread.shown:
            return thread
        if thread.ts and state == thread.state and not _due(thread, now):
            return thread
        if thread.ts:
            self._call("chat.update", {"channel": thread.channel, "ts": thread.ts, **wire})
            ts = thread.ts
        else:
            ts = self._call("chat.postMessage", {"channel": thread.channel, **quiet(wire)})
        after = thread.changed(ts=ts or thread.ts, shown=shown, state=state, shown_at=now)
        return self._telling.threads.put(after)

    def _reply(self, thread: RunThread, said: Said) -> RunThread:
        wire = said.page.wire_of_channel()
        before, shown = thread.reply(said.key), _fingerprint(wire)
        if not thread.ts or (before is not None and before.shown == shown):
            return thread
        if (
            before is None
            and len(thread.replies) >= MOST_REPLIES
            and not said.key.startswith("end")
        ):
            return thread
        ts = before.ts if before is not None else ""
        if before is None:
            aloud = {"reply_broadcast": True} if said.aloud else {}
            ts = self._call(
                "chat.postMessage",
                {"channel": thread.channel, "thread_ts": thread.ts, **aloud, **quiet(wire)},
            )
        elif ts:
            self._call("chat.update", {"channel": thread.channel, "ts": ts, **wire})
        reply = ThreadReply(key=said.key, ts=ts, shown=shown)
        return self._telling.threads.put(thread.with_reply(reply))

    def _call(self, method: str, arguments: Mapping[str, Any]) -> str:
        """The message's `ts`; '' of one that Slack does not take, which is left as it is."""
        self._calls += 1
        try:
            answer = self._telling.api.call(method, arguments)
        except SlackRefused as refused:
            if refused.error not in OF_MESSAGE:
                raise
            _LOG.error("%s: %s", method, refused.detail)
            return ""
        if self._pause is not None and self._pause.trouble:
            self._telling.threads.put_pause(SlackPause(until=self._ports.clock.now()))
            self._pause = None
        return str(answer.get("ts") or "")


def _due(thread: RunThread, now: datetime) -> bool:
    return now - thread.shown_at >= timedelta(seconds=EDIT_SECONDS)


def quiet(wire: dict[str, Any]) -> dict[str, Any]:
    """Without previews of what looks like an address."""
    return {**wire, "unfurl_links": False, "unfurl_media": False}


def _fingerprint(wire: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(wire, sort_keys=True).encode()).hexdigest()[:16]

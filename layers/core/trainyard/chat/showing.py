"""One run's message and thread, brought up to date."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from trainyard.app.runs.run_costs import costs_of
from trainyard.app.runs.show_run import show_run
from trainyard.chat.members import ListUnreadable, users_of
from trainyard.chat.telling import OF_MESSAGE, Telling
from trainyard.chat.thread_words import Said, replies, run_message, state_of
from trainyard.chat.web_api import SlackRefused
from trainyard.domain.approval_records import Approval
from trainyard.domain.errors import ApprovalNotFound, RunNotFound
from trainyard.domain.records import Run, RunCost
from trainyard.domain.thread_records import RunThread, SlackPause, ThreadReply
from trainyard.ports import Ports

_LOG = logging.getLogger(__name__)
#: Between two edits of a message while its run is in the same state.
EDIT_SECONDS = 30
#: More replies than these are not kept, so that the item stays small; the end is always said.
MOST_REPLIES = 300


class Showing:
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

"""A channel of Slack that takes messages, edits and replies, and the threads' store, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.memory import World
from tests.support.slack import WHO, check_blocks
from tests.support.slack_chat import ALICE, MemoryClaims, words

from trainyard.chat.mornings import Morning, look
from trainyard.chat.telling import Telling, Told
from trainyard.chat.threads import tell
from trainyard.domain.errors import ConflictError
from trainyard.domain.thread_records import RunThread, SlackDigest, SlackPause
from trainyard_contracts.user_events import CHANGES

CHANNEL = "C0123ABCDEF"
#: The only mention that Trainyard makes: of the owner of a run that failed.
MENTION = f"<@{WHO.partition('/')[2]}>"


@dataclass
class MemoryThreads:
    stored: dict[str, RunThread] = field(default_factory=dict)
    opened: dict[str, str] = field(default_factory=dict)
    paused: SlackPause | None = None
    world: World | None = None
    last: SlackDigest | None = None

    def wake(self, run_id: str, channel: str) -> None:
        assert self.world is not None
        now = self.world.clock.now()
        found = self.stored.get(run_id) or RunThread(run_id=run_id, channel=channel, shown_at=now)
        self.stored[run_id] = found.changed(wakes=found.wakes + 1)
        self.opened.setdefault(run_id, f"{now.isoformat()}#{run_id}")

    def get(self, run_id: str) -> RunThread | None:
        return self.stored.get(run_id)

    def open_ones(self, at_most: int) -> list[RunThread]:
        ids = sorted(self.opened, key=lambda one: self.opened[one])
        return [self.stored[one] for one in ids[:at_most]]

    def put(self, thread: RunThread) -> RunThread:
        before = self.stored[thread.run_id]
        if before.version != thread.version:
            raise ConflictError(f"the thread of {thread.run_id} was changed by someone else")
        after = thread.changed(version=thread.version + 1, wakes=before.wakes)
        self.stored[thread.run_id] = after
        if thread.run_id in self.opened:
            self.opened[thread.run_id] = f"{thread.shown_at.isoformat()}#{thread.run_id}"
        return after.changed(wakes=thread.wakes)

    def close(self, thread: RunThread) -> bool:
        found = self.stored[thread.run_id]
        same = (found.version, found.wakes) == (thread.version, thread.wakes)
        if same:
            self.opened.pop(thread.run_id, None)
        return same

    def pause(self) -> SlackPause | None:
        return self.paused

    def put_pause(self, pause: SlackPause) -> None:
        self.paused = pause

    def digest(self) -> SlackDigest | None:
        return self.last

    def put_digest(self, digest: SlackDigest) -> SlackDigest:
        if digest.version != (self.last.version if self.last else 0):
            raise ConflictError("the digest was changed by someone else")
        self.last = digest.changed(version=digest.version + 1)
        return self.last


@dataclass
class MemoryChannel:
    """Raises AssertionError where Slack would refuse a message."""

    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    #: Raised in place of an answer, one each call.
    troubles: list[Exception] = field(default_factory=list)
    #: Raised after the message was taken: the answer is lost.
    lost: list[BaseException] = field(default_factory=list)

    def call(self, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append(method)
        if self.troubles:
            raise self.troubles.pop(0)
        assert arguments["channel"].startswith("C")
        check_blocks(dict(arguments), mentions=(MENTION,))
        if method == "chat.update":
            ts = arguments["ts"]
            self.messages[ts] |= arguments
        else:
            assert method == "chat.postMessage"
            assert arguments["unfurl_links"] is arguments["unfurl_media"] is False
            assert arguments.get("thread_ts", "") in (*self.messages, "")
            ts = f"1531420618.{len(self.messages):06}"
            self.messages[ts] = {**arguments, "ts": ts}
        if self.lost:
            raise self.lost.pop(0)
        return {"ok": True, "channel": arguments["channel"], "ts": ts}

    @property
    def parents(self) -> list[dict[str, Any]]:
        return [one for one in self.messages.values() if "thread_ts" not in one]

    @property
    def replies(self) -> list[dict[str, Any]]:
        return [one for one in self.messages.values() if "thread_ts" in one]


@dataclass
class Teller:
    """Shows the runs of a world in a channel."""

    world: World
    people: str | None = f'{{"{WHO}": "{ALICE}"}}'
    channel: MemoryChannel = field(default_factory=MemoryChannel)
    threads: MemoryThreads = field(default_factory=MemoryThreads)
    claims: MemoryClaims = field(default_factory=MemoryClaims)
    named: str = CHANNEL
    hour: int = 8
    zone: str = "UTC"

    def __post_init__(self) -> None:
        self.threads.world = self.world

    @property
    def telling(self) -> Telling:
        wrap = self.world.fuse.wrap
        return Telling(
            wrap(self.threads), self.claims, self.channel, self.named, lambda: self.people
        )

    def event(self, run_id: str, type_: str = "run.started") -> list[Told]:
        detail = {"id": "x", "type": type_, "run": {"id": run_id}}
        event = {"source": "trainyard", "detail-type": type_, "detail": detail}
        return tell(self.world.ports, self.telling, event)

    def changed(self, run_id: str) -> list[Told]:
        """As the hint that another state of the run is stored."""
        event = {"source": CHANGES, "detail-type": "run.changed", "detail": {"run": {"id": run_id}}}
        return tell(self.world.ports, self.telling, event)

    def look(self) -> list[Told]:
        """As each minute."""
        return tell(self.world.ports, self.telling, {"source": "aws.scheduler"})

    def minute(self) -> str:
        """As each minute in a stack that has a digest; what became of that."""
        morning = Morning(self.hour, self.zone, self.world.fuse.wrap(self.threads))
        told = look(self.world.ports, self.telling, morning, {"source": "aws.scheduler"})
        return "; ".join(one.result for one in told if one.run_id == "digest")

    @property
    def digests(self) -> list[str]:
        return [words(one) for one in self.channel.parents if one["text"] == "What happened"]

    @property
    def shown(self) -> str:
        (parent,) = self.channel.parents
        return words(parent)

    @property
    def said(self) -> list[str]:
        return [words(one) for one in self.channel.replies]

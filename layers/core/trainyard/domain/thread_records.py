"""What the table stores of a run's message in a channel of Slack, and of Slack's refusals."""

from datetime import datetime

from pydantic import Field
from typing_extensions import Self

from trainyard.domain.records import Record


class ThreadReply(Record):
    """A reply in the thread, by what it is about."""

    key: str
    ts: str = Field(default="", description="Slack's id of it; '' if it cannot be edited any more")
    shown: str = Field(description="fingerprint of what it shows")


class RunThread(Record):
    """A run's message and its thread. One that is open is looked at each minute."""

    run_id: str
    channel: str
    ts: str = Field(default="", description="Slack's id of the message; '' before it is sent")
    shown: str = Field(default="", description="fingerprint of what it shows")
    state: str = Field(default="", description="of the run when it was shown")
    shown_at: datetime
    replies: list[ThreadReply] = Field(default_factory=list)
    version: int = 0
    wakes: int = Field(default=0, description="events of the run that came before it was read")

    def reply(self, key: str) -> ThreadReply | None:
        return next((one for one in self.replies if one.key == key), None)

    def with_reply(self, reply: ThreadReply) -> Self:
        others = [one for one in self.replies if one.key != reply.key]
        return self.changed(replies=[*others, reply])


class SlackPause(Record):
    """Nothing is sent to Slack until then."""

    until: datetime
    trouble: str = Field(default="", description="Slack's word for why; '' if it is only too much")


class SlackDigest(Record):
    """The last digest: of which day it was, and where the time begins that the next one tells."""

    day: str = Field(description="such as 2026-11-29, in the zone of the stack")
    since: datetime = Field(description="up to then Slack took all; it moves on after it took one")
    version: int = 0

"""The audit list: who changed what, when, from where and why, and what the machine itself did."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard.domain.records import Record
from trainyard_contracts.people import Person

#: Everything that a person can change, what the machine does that spends or deletes, and that Slack
#: takes no messages.
Act = Literal[
    "run.submit", "run.cancel", "run.resume", "run.export", "run.share", "run.transfer",
    "cluster.create", "cluster.update", "cluster.stop", "cluster.start", "cluster.delete",
    "cluster.keep",
    "cluster.adopt", "cluster.release", "cluster.share", "cluster.transfer",
    "cluster.label", "run.label", "run.priority", "cluster.sharing", "node.replace", "node.reboot",
    "filesystem.create", "filesystem.export", "filesystem.delete", "filesystem.share",
    "filesystem.transfer", "run.delete-directory", "array.submit", "array.cancel",
    "array.share", "array.transfer", "array.begin",
    "approval.approve", "approval.deny",
    "webhook.add", "webhook.rotate", "webhook.redeliver", "webhook.remove",
    "budget.set", "budget.remove",
    "schedule.create", "schedule.pause", "schedule.resume", "schedule.delete",
    "schedule.share", "schedule.transfer", "schedule.fire",
    "slack.refused",
]  # fmt: skip


class AuditEntry(Record):
    """One change, written before it is made, and its outcome after."""

    id: str = Field(description="of a person's: the id of the request")
    at: datetime
    who: Person | None = Field(default=None, description="null: Trainyard itself decided it")
    what: Act
    subject: str = Field(description="kind/name, such as cluster/shared-cpu")
    reason: str = Field(default="", description="what the person gave, or why Trainyard did it")
    source_ip: str = ""
    user_agent: str = Field(default="", description="the caller's own word for its program")
    outcome: Literal["asked", "done", "refused", "failed", "decided"] = Field(
        default="asked",
        description="asked: whether it was done is not known; decided: by Trainyard, and what "
        "became of it is in the timeline",
    )
    detail: str = Field(default="", description="why it was refused or failed")


@dataclass(frozen=True)
class AuditQuery:
    """What of the list is wanted; None = whatever it is."""

    since: datetime
    who: str | None = None
    what: str | None = None
    subject: str | None = None

    def wants(self, entry: AuditEntry) -> bool:
        """`who` is a name or an ARN, or 'trainyard'; `what` an act, or its first word."""
        names = ("trainyard",) if entry.who is None else (entry.who.name, entry.who.arn)
        acts = (entry.what, entry.what.partition(".")[0])
        return (
            entry.at >= self.since
            and (self.who is None or self.who in names)
            and (self.what is None or self.what in acts)
            and (self.subject is None or self.subject == entry.subject)
        )

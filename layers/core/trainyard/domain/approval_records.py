"""What the table stores of an approval: what is asked for, who approved it, what became of it."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from trainyard.domain.records import Record
from trainyard_contracts.people import Person

#: used: what was approved has begun. withdrawn: what it was for ended before anybody decided.
ApprovalState = Literal["pending", "approved", "denied", "expired", "used", "withdrawn"]
ApprovalAction = Literal["run.submit", "run.resume"]


class Vote(Record):
    """One person's word."""

    by: Person
    at: datetime
    reason: str = ""


class Approval(Record):
    """Asked for once and decided once. It stays as what was decided, by whom and why."""

    id: str = Field(description="follows from the run and its life, so that asking twice is once")
    action: ApprovalAction
    subject: str = Field(description="kind/name, such as run/run-...")
    run_id: str
    run_name: str = Field(default="", description="for people; '': an older version made it")
    argument_hash: str = Field(description="of what is approved; something else is not")
    because: str
    usd: float | None = None
    requester: Person | None = Field(default=None, description="null: an older version made it")
    needed: int = 1
    approvers: list[Vote] = Field(default_factory=list)
    denied: Vote | None = None
    state: ApprovalState = "pending"
    version: int = 0
    created_at: datetime
    updated_at: datetime
    expires_at: datetime
    decided_at: datetime | None = None

    @property
    def name(self) -> str:
        """As lists know it."""
        return self.subject

    @property
    def status(self) -> str:
        return self.state

    @property
    def created_by(self) -> Person | None:
        return self.requester

    @property
    def over(self) -> bool:
        return self.state != "pending"

    def expired_at(self, now: datetime) -> bool:
        """By the time, whether or not somebody wrote it down already."""
        return self.state == "expired" or (self.state == "pending" and now >= self.expires_at)

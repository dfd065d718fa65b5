"""What the API answers of people and of the audit list, and what it is asked, field by field."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from trainyard.domain import audit
from trainyard.domain.people import Role
from trainyard.http.views import View
from trainyard_contracts.base import Strict
from trainyard_contracts.people import Person


class WhoamiView(View):
    """The signer of this request."""

    person: Person
    role: Role | None = Field(description="null: none, so that every other call is refused")
    everybody_is_admin: bool = Field(
        description="the stack's parameter Admins is *: whom IAM lets in may do everything"
    )


class AuditEntryView(View):
    """One change that was asked for, or that Trainyard itself decided."""

    id: str
    at: datetime
    who: Person | None = Field(description="null: Trainyard itself")
    what: audit.Act
    subject: str = Field(description="kind/name, such as cluster/shared-cpu")
    reason: str
    source_ip: str | None = Field(description="null: shown to admins and to the person alone")
    user_agent: str | None = Field(
        description="the caller's own word for its program; null as sourceIp"
    )
    outcome: Literal["asked", "done", "refused", "failed", "decided"] = Field(
        description="asked: whether it was done is not known; decided: by Trainyard"
    )
    detail: str = Field(description="why it was refused or failed")


class AuditPage(View):
    """One page of changes, newest first."""

    entries: list[AuditEntryView]
    next_token: str | None = None


class ShareSpec(Strict):
    """With whom a thing is shared; it replaces what was there."""

    shared_with: list[Annotated[str, Field(min_length=1, max_length=300)]] = Field(
        max_length=20,
        description="ARNs of users, roles or sessions; * is any text without / and :; [] = nobody",
    )


class TransferSpec(Strict):
    """To whom a thing is given."""

    to: str | None = Field(
        default=None,
        max_length=300,
        description="ARN of a user, a role or a role's session; null: who asks",
    )

"""Who may do what: three roles by patterns of ARNs, and the owners of things."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from trainyard.domain.array_records import RunArray
from trainyard.domain.errors import Forbidden
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.records import Cluster, Run
from trainyard.domain.schedule_records import Schedule
from trainyard.domain.webhook_records import Webhook
from trainyard_contracts.people import Person

#: viewer: reads. member: also submits and creates, and changes what is theirs. admin: everything.
Role = Literal["viewer", "member", "admin"]
_ROLE_ARN = re.compile(r"(arn:[^:]*):iam::([^:]*):role/(?:.*/)?([^/]+)")
_SESSION_ARN = re.compile(r"(arn:[^:]*):sts::([^:]*):assumed-role/([^/]+)/([^/]+)")


@dataclass(frozen=True)
class RolesOfPeople:
    """Patterns of ARNs of each role, as the stack has them. The highest that matches counts."""

    admins: Sequence[str] = ("*",)
    members: Sequence[str] = ("*",)
    viewers: Sequence[str] = ("*",)

    def of(self, person: Person) -> Role | None:
        if matches(self.admins, person):
            return "admin"
        if matches(self.members, person):
            return "member"
        return "viewer" if matches(self.viewers, person) else None


@dataclass(frozen=True)
class Thing:
    """What somebody wants to change."""

    kind: Literal["run", "cluster", "filesystem", "array", "schedule", "webhook"]
    name: str
    owner: Person | None
    shared_with: Sequence[str] = ()
    #: Of a run's own cluster: the run, which is shared and given away in its place.
    of_run: str = ""

    @classmethod
    def of(cls, record: Run | Cluster | Filesystem | RunArray | Schedule | Webhook) -> Thing:
        if isinstance(record, Webhook):
            return cls("webhook", record.id, record.created_by)
        if isinstance(record, RunArray):
            return cls("array", record.id, record.created_by, record.shared_with)
        if isinstance(record, Schedule):
            return cls("schedule", record.name, record.created_by, record.shared_with)
        if isinstance(record, Run):
            return cls("run", record.id, record.created_by, record.shared_with)
        kind: Literal["cluster", "filesystem"] = (
            "cluster" if isinstance(record, Cluster) else "filesystem"
        )
        return cls(kind, record.name, record.created_by, record.shared_with)

    @property
    def subject(self) -> str:
        """As the audit list names it."""
        return f"{self.kind}/{self.name}"


def matches(patterns: Sequence[str], person: Person) -> bool:
    """Whether one is the person's ARN; `*` is any text without `/` and `:`, and alone everybody.

    The ARN of a role is that of all its sessions.
    """
    arns = [person.arn]
    if session := _SESSION_ARN.fullmatch(person.arn):
        partition, account, role, _ = session.groups()
        arns.append(f"{partition}:iam::{account}:role/{role}")
    if role_arn := _ROLE_ARN.fullmatch(person.arn):  # of a role's unnamed sessions
        partition, account, role = role_arn.groups()
        arns.append(f"{partition}:sts::{account}:assumed-role/{role}/-")
    return any(
        pattern == "*" or any(map(_compiled(pattern).fullmatch, arns)) for pattern in patterns
    )


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Without a role's path, which the ARN of its sessions does not have."""
    role = _ROLE_ARN.fullmatch(pattern)
    if role is not None:
        pattern = f"{role[1]}:iam::{role[2]}:role/{role[3]}"
    return re.compile("[^/:]*".join(map(re.escape, pattern.split("*"))))


def refusal(roles: RolesOfPeople, person: Person, thing: Thing | None = None) -> Forbidden | None:
    """Why the person may not change this thing, or make a new one; None if they may."""
    role = roles.of(person)
    if role is None or role == "viewer":
        return _too_little(person, role)
    if role == "admin" or thing is None or thing.owner is None or thing.owner.same_as(person):
        return None
    return None if matches(thing.shared_with, person) else _anothers(thing, thing.owner)


def refusal_to_own(roles: RolesOfPeople, person: Person, thing: Thing) -> Forbidden | None:
    """The same for what the owner and admins alone may: to share it, or to give it to others."""
    refused = refusal(roles, person, thing)
    if refused is not None or roles.of(person) == "admin":
        return refused
    if thing.owner is not None and not thing.owner.same_as(person):
        return _anothers(thing, thing.owner)
    return None


def refusal_to_read(roles: RolesOfPeople, person: Person) -> Forbidden | None:
    return _too_little(person, None) if roles.of(person) is None else None


def refusal_to_prefer(roles: RolesOfPeople, person: Person, priority: int) -> Forbidden | None:
    """Why the person may not give a run this priority; their own they may put behind others'."""
    if priority <= 0 or roles.of(person) == "admin":
        return None
    return Forbidden(
        f"{person.name} ({person.arn}) may not give a run priority {priority}: above 0 is for "
        "admins, since it goes before other people's runs.",
        next_step="Use a priority from -100 to 0, or ask an admin.",
    )


def refusal_to_budget(roles: RolesOfPeople, person: Person) -> Forbidden | None:
    """Why the person may not change a budget that runs share; None if they may."""
    role = roles.of(person)
    if role == "admin":
        return None
    if role == "member":
        return Forbidden(
            f"{person.name} ({person.arn}) may not change budgets that runs share: admins do.",
            next_step="Ask an admin of the stack.",
        )
    return _too_little(person, role)


def _too_little(person: Person, role: Role | None) -> Forbidden:
    if role == "viewer":
        return Forbidden(
            f"{person.name} ({person.arn}) is a viewer of this stack: viewers only read.",
            next_step="Ask an admin of the stack for a role that changes things (its parameter "
            "Members); trainyard whoami shows your role.",
        )
    return Forbidden(
        f"{person.name} ({person.arn}) has no role in this stack.",
        next_step="Ask an admin to add this ARN to the stack's parameter Viewers, Members or "
        "Admins.",
    )


def _anothers(thing: Thing, owner: Person) -> Forbidden:
    named = f"{thing.kind.capitalize()} '{thing.name}'"
    if thing.kind == "webhook":
        return Forbidden(
            f"{named} belongs to {owner.name} ({owner.arn}).",
            next_step=f"Ask {owner.name} or an admin to do it; webhooks are not shared, and not "
            "given to others.",
        )
    given = f"run {{}} {thing.of_run}" if thing.of_run else f"{thing.kind} {{}} {thing.name}"
    return Forbidden(
        f"{named} belongs to {owner.name} ({owner.arn}).",
        next_step=f"Ask {owner.name} to do it, or to share it with you (trainyard "
        f"{given.format('share')} --with ARN); or ask an admin. If {owner.name} left, an admin "
        f"gives it to another: trainyard {given.format('transfer')} --to ARN.",
    )

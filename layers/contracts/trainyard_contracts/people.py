"""Who asks: one person, read from what API Gateway itself says of a request's signature."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from trainyard_contracts.base import Lenient

#: What an ARN of a principal looks like, with its last part in a group.
_ARN = re.compile(r"arn:(aws[a-z-]*):(iam|sts)::(\d{12}):(.+)")
#: botocore's own name for a session to which nobody gave one: another at each refresh of the keys.
_UNNAMED = re.compile(r"botocore-session-\d+")

PersonKind = Literal["user", "session", "role", "federated-user", "cognito", "root"]


class Person(Lenient):
    """A principal of AWS. Two requests are of one person if `id` is the same."""

    id: str = Field(
        description="AWS's own id of the principal, such as AIDA... of a user or "
        "AROA...:SESSION of a role's session; no later one of the same name has it"
    )
    arn: str
    account: str = Field(description="the account of the principal, 12 digits")
    name: str = Field(description="of the user, or of the session; of an unnamed session its role")
    kind: PersonKind = Field(
        description="session: of a role, with a name of its own; role: the sessions of a role that "
        "have no name, which are one; cognito: an identity of a Cognito identity pool"
    )

    def same_as(self, other: Person) -> bool:
        """By the ids; by the ARNs where an id is not known, as of one who was only named."""
        if self.id and other.id:
            return self.id == other.id
        return self.arn == other.arn


def person_of(given: Mapping[str, Any]) -> Person:
    """The person of `requestContext.authorizer.iam` of an HTTP API. Raises ValueError.

    Nothing else of a request says who sent it: headers and bodies are the caller's own words.
    """
    arn, identity = str(given.get("userArn") or ""), str(given.get("userId") or "")
    if not identity:
        raise ValueError("it has no userId")
    found = named(arn)
    pool = given.get("cognitoIdentity")
    if isinstance(pool, Mapping) and pool.get("identityId"):
        who = str(pool["identityId"])  # all identities of a pool share one role and session name
        return found.changed(id=who, name=who, kind="cognito")
    if found.kind == "role":  # AROA...:botocore-session-...
        return found.changed(id=identity.partition(":")[0])
    return found.changed(id=identity)


def named(arn: str) -> Person:
    """The person with this ARN, whose id is not known. Raises ValueError with what is wrong."""
    found = _ARN.fullmatch(arn)
    if found is None:
        raise ValueError(
            "is not the ARN of a user, a role or a role's session, such as "
            "arn:aws:iam::111122223333:user/alice"
        )
    partition, _, account, rest = found.groups()
    kind, _, path = rest.partition("/")
    if rest == "root":
        return _person(arn, account, "root", "root")
    if kind == "user" and path:
        return _person(arn, account, path.rpartition("/")[2], "user")
    if kind == "federated-user" and path:
        return _person(arn, account, path, "federated-user")
    if kind == "role" and path:
        return _role(partition, account, path.rpartition("/")[2])
    role, _, session = path.partition("/")
    if kind == "assumed-role" and role and session:
        if _UNNAMED.fullmatch(session):
            return _role(partition, account, role)
        return _person(arn, account, session, "session")
    raise ValueError(
        "names neither a user, a role nor a role's session; an example: "
        "arn:aws:sts::111122223333:assumed-role/Research/alice"
    )


def _role(partition: str, account: str, role: str) -> Person:
    """Without the role's path, which the ARN of its sessions does not have."""
    return _person(f"arn:{partition}:iam::{account}:role/{role}", account, role, "role")


def _person(arn: str, account: str, name: str, kind: PersonKind) -> Person:
    return Person(id="", arn=arn, account=account, name=name, kind=kind)

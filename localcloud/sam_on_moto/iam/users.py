"""Users of IAM as moto keeps them: their access keys sign, and their own policies decide."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple


class UserKey(NamedTuple):
    """An access key of a user that may be used now."""

    secret: str
    arn: str
    user_id: str
    user: str


def key_of(account_id: str, access_key_id: str) -> UserKey | None:
    """None for a key that is nobody's, deleted or inactive."""
    for user in _users(account_id).values():
        for key in user.access_keys:
            if key.access_key_id == access_key_id and key.status == "Active":
                return UserKey(key.secret_access_key, user.arn, _aida(user.id), user.name)
    return None


def documents(account_id: str, name: str) -> Iterable[Any]:
    """The user's own policies and those attached to them; groups are not done here."""
    user = _users(account_id).get(name)
    if user is None:
        return []
    attached = [
        next(version.document for version in policy.versions if version.is_default)
        for policy in user.managed_policies.values()
    ]
    return [*user.policies.values(), *attached]


def role_id(account_id: str, name: str) -> str:
    """IAM's own id of a role: another one for each role, also for one that is made again."""
    for role in _iam(account_id).roles.values():
        if role.name == name:
            return str(role.id)
    return f"AROA{hashlib.sha256(name.encode()).hexdigest()[:17].upper()}"


def _aida(identity: str) -> str:
    """moto's ids of users lack the letters by which AWS's own begin."""
    return identity if identity.startswith("AIDA") else f"AIDA{identity.upper()[:17]}"


def _users(account_id: str) -> dict[str, Any]:
    users: dict[str, Any] = _iam(account_id).users
    return users


def _iam(account_id: str) -> Any:
    from moto.iam.models import iam_backends

    return iam_backends[account_id]["aws"]

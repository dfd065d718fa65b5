"""Who may assume a role: its trust policy, with the name that the caller gives the session."""

from __future__ import annotations

import json
from typing import Any

from sam_on_moto.iam import policies
from sam_on_moto.iam.access import Access, Denied, Principal


def require_trust(access: Access, principal: Principal, role_arn: str, session: str) -> None:
    """Raises Denied; the owner of the local cloud may assume any role.

    A trust in the account's root leaves it to the caller's own policies, which the gate checks.
    """
    if principal.owns_all:
        return
    from moto.iam.models import iam_backends

    roles = iam_backends[access.account_id]["aws"].get_roles()
    role = next((role for role in roles if role.arn == role_arn), None)
    document = json.loads(role.assume_role_policy_document) if role is not None else {}
    context = {
        "sts:rolesessionname": session,
        "aws:principalarn": principal.arn,
        "aws:principalaccount": access.account_id,
        **({"aws:username": principal.user} if principal.user else {}),
    }
    statements = document.get("Statement", [])
    meant = [
        statement
        for statement in (statements if isinstance(statements, list) else [statements])
        if _names(statement.get("Principal", {}), principal, access.account_id)
    ]
    verdict = policies.evaluate([{"Statement": meant}], "sts:AssumeRole", role_arn, context)
    if verdict != "allow":
        raise Denied(principal.arn, "sts:AssumeRole", role_arn, verdict)


def _names(trusted: Any, principal: Principal, account_id: str) -> bool:
    given = trusted if isinstance(trusted, str) else trusted.get("AWS", [])
    each = given if isinstance(given, list) else [given]
    known = {"*", principal.arn, account_id, f"arn:aws:iam::{account_id}:root"}
    if principal.role:
        known.add(f"arn:aws:iam::{account_id}:role/{principal.role}")
    return bool(known & set(each))

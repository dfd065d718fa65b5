"""Who calls, and may they: the keys that the local cloud issued and the policies of their roles."""

from __future__ import annotations

import base64
import collections
import functools
import json
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from sam_on_moto.iam import arns, policies, users
from sam_on_moto.inside.place import ACCOUNT_ID

log = logging.getLogger(__name__)

#: IAM is eventually consistent: a service cannot use a new role at once. AWS names no time.
ROLE_SPREADS_SECONDS = 0.5


PassedRoles = Callable[[str, Mapping[str, Any]], list[str]]
"""passed_roles(action, parameters) -> ARNs; who may not pass them may not do the action."""


@dataclass(frozen=True)
class Principal:
    """The holder of one access key.

    Without a `role` and a `user` it is the one who owns the local cloud and may do everything.
    """

    access_key_id: str
    secret_access_key: str
    session_token: str | None
    arn: str
    role: str | None
    user_id: str
    user: str | None = None

    @property
    def owns_all(self) -> bool:
        return self.role is None and self.user is None


class Denied(Exception):
    """The principal's policies do not allow the action."""

    def __init__(self, principal: str, action: str, resource: str, verdict: str) -> None:
        because = (
            "an explicit deny in a policy"
            if verdict == "explicit-deny"
            else "no policy allows the action"
        )
        super().__init__(
            f"User: {principal} is not authorized to perform: {action} "
            f"on resource: {resource} because {because}"
        )
        self.action = action


class Access:
    """Keys and decisions.

    With enforce=False roles may do everything, but keys are still checked. `finders` know by
    service what a request touches, and `passed_roles` which roles it passes to the service.
    """

    def __init__(
        self,
        account_id: str = ACCOUNT_ID,
        *,
        enforce: bool = True,
        finders: Mapping[str, arns.Finder] = arns.FINDERS,
        passed_roles: Mapping[str, PassedRoles] | None = None,
    ) -> None:
        self.account_id = account_id
        self.enforce = enforce
        self.finders = finders
        self.passed_roles = {"scheduler": arns.scheduler_roles, **(passed_roles or {})}
        self.forbids: list[Callable[[Principal, str], bool]] = []
        """Each is asked before the policies whether it refuses the principal the action."""
        self.denials: collections.deque[dict[str, str]] = collections.deque(maxlen=100)
        self.resource_tags: dict[str, Callable[[str], Mapping[str, str]]] = {}
        """service -> function(ARN) -> tags, for aws:ResourceTag conditions.

        A part that owns resources registers here.
        """
        self.bucket_policies: dict[str, Mapping[str, Any]] = {}
        self._principals: dict[str, Principal] = {}
        self._issued: dict[tuple[str, str], Principal] = {}
        self._lock = threading.Lock()
        self.owner = self._add(
            "AKIA", f"arn:aws:iam::{account_id}:user/local", None, "AIDALOCALUSER"
        )

    def issue(self, role_arn: str, session: str) -> Principal:
        """Keys of a role session; the same role and session get the same keys."""
        with self._lock:
            known = self._issued.get((role_arn, session))
        if known:
            return known
        role = role_arn.rsplit("/", maxsplit=1)[-1]
        arn = f"arn:aws:sts::{self.account_id}:assumed-role/{role}/{session}"
        identity = f"{users.role_id(self.account_id, role)}:{session}"
        principal = self._add("ASIA", arn, role, identity)
        with self._lock:
            return self._issued.setdefault((role_arn, session), principal)

    def environment(self, role_arn: str, session: str) -> dict[str, str]:
        """The keys of a role session as the variables that AWS's SDKs read."""
        principal = self.issue(role_arn, session)
        return {
            "AWS_ACCESS_KEY_ID": principal.access_key_id,
            "AWS_SECRET_ACCESS_KEY": principal.secret_access_key,
            "AWS_SESSION_TOKEN": principal.session_token or "",
        }

    def _add(self, prefix: str, arn: str, role: str | None, user_id: str) -> Principal:
        key = prefix + base64.b32encode(secrets.token_bytes(10)).decode()
        token = secrets.token_urlsafe(64) if role else None
        principal = Principal(key, secrets.token_urlsafe(30), token, arn, role, user_id)
        with self._lock:
            self._principals[key] = principal
        return principal

    def principal(self, access_key_id: str) -> Principal | None:
        with self._lock:
            known = self._principals.get(access_key_id)
        if known is not None or access_key_id.startswith("ASIA"):
            return known
        key = users.key_of(self.account_id, access_key_id)
        if key is None:
            return None
        return Principal(access_key_id, key.secret, None, key.arn, None, key.user_id, key.user)

    def require(
        self,
        principal: Principal,
        action: str,
        resource: str,
        context: policies.Context | None = None,
    ) -> None:
        """Raises Denied unless the principal may do this.

        The denial is logged, and kept for the status page.
        """
        documents = (
            []
            if principal.owns_all
            else [*self._documents(principal), *self._resource_policies(resource)]
        )
        self._decide(documents, principal, action, resource, context)

    def may_assume(self, role_arn: str, service: str) -> bool:
        """Whether a service may act under this role now.

        The role is there, it trusts the service, and IAM has told everybody of it.
        """
        from moto.iam.models import iam_backends

        roles = iam_backends[self.account_id]["aws"].get_roles()
        role = next((role for role in roles if role.arn == role_arn), None)
        if role is None or service not in role.assume_role_policy_document:
            return False
        age = (
            datetime.now(timezone.utc) - role.create_date.replace(tzinfo=timezone.utc)
        ).total_seconds()
        return not self.enforce or age >= ROLE_SPREADS_SECONDS

    def require_role(self, role_arn: str, service: str, action: str, resource: str) -> None:
        """The same for a service that acts under a role (a state machine, a schedule)."""
        self.require(self.issue(role_arn, service), action, resource)

    def _decide(
        self,
        documents: list[Any],
        principal: Principal,
        action: str,
        resource: str,
        context: policies.Context | None,
    ) -> None:
        if principal.owns_all or not self.enforce or action == "sts:GetCallerIdentity":
            return
        circumstances = {
            "aws:securetransport": "true",
            "aws:principalaccount": self.account_id,
            "aws:resourceaccount": self.account_id,
            **(context or {}),
        }
        try:
            verdict = policies.evaluate(documents, action, resource, circumstances)
            boundary = self._boundary(principal.role) if principal.role else None
            if verdict == "allow" and boundary is not None:
                verdict = policies.evaluate([boundary], action, resource, circumstances)
        except policies.Unsupported as error:
            log.error("%s", error)
            verdict = "implicit-deny"
        if verdict == "allow":
            return
        denied = Denied(principal.arn, action, resource, verdict)
        at = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        self.denials.append(
            {
                "at": at,
                "principal": principal.arn,
                "action": action,
                "resource": resource,
                "verdict": verdict,
            }
        )
        log.warning("%s", denied)
        raise denied

    def _documents(self, principal: Principal) -> list[Mapping[str, Any]]:
        if principal.role is not None:
            return self._of_role(principal.role)
        found = users.documents(self.account_id, principal.user or "")
        return [_parsed(d if isinstance(d, str) else json.dumps(d)) for d in found]

    def _of_role(self, role: str) -> list[Mapping[str, Any]]:
        from moto.iam.exceptions import NotFoundException
        from moto.iam.models import iam_backends

        backend = iam_backends[self.account_id]["aws"]
        try:
            found = backend.get_role(role)
        except NotFoundException:
            return []  # the role is gone: its keys allow nothing
        attached = [_document(policy) for policy in found.managed_policies.values()]
        return [
            _parsed(d if isinstance(d, str) else json.dumps(d))
            for d in [*found.policies.values(), *attached]
        ]

    def _boundary(self, role: str) -> Mapping[str, Any] | None:
        """The most that the role may do, whatever its policies say; None if there is no limit."""
        from moto.iam.exceptions import NotFoundException
        from moto.iam.models import iam_backends

        backend = iam_backends[self.account_id]["aws"]
        try:
            arn = backend.get_role(role).permissions_boundary_arn
        except NotFoundException:
            return None
        return _parsed(_document(backend.managed_policies[arn])) if arn else None

    def _resource_policies(self, resource: str) -> list[Mapping[str, Any]]:
        """A bucket's own policy, of which only the denials count.

        moto's own evaluation ignores conditions, so the policy is kept from moto.
        """
        if not resource.startswith("arn:aws:s3:::"):
            return []
        policy = self.bucket_policies.get(resource.removeprefix("arn:aws:s3:::").split("/")[0])
        return (
            [{"Statement": [s for s in policy["Statement"] if s["Effect"] == "Deny"]}]
            if policy
            else []
        )

    def report(self) -> dict[str, Any]:
        return {"enforced": self.enforce, "denials": list(self.denials)[-20:]}


def _document(policy: Any) -> str:
    """The version of a managed policy that counts."""
    return next(str(version.document) for version in policy.versions if version.is_default)


@functools.lru_cache(512)
def _parsed(document: str) -> Mapping[str, Any]:
    parsed: Mapping[str, Any] = json.loads(document)
    return parsed

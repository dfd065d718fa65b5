"""Roles of nodes on IAM, below one path and within one boundary: the template allows no others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timezone
from typing import Any

from trainyard.aws.refusals import NEXT_STEP, translated
from trainyard.domain import errors
from trainyard.outside.roles import FoundRole, NodeRole

_POLICY = "node"


class _Exists(errors.TrainyardError):
    """The role is there."""


class _Missing(errors.TrainyardError):
    """The role, or its policy, is not there."""


class _Denied(errors.TrainyardError):
    """Refused: by the template's own policy, or because there is no such role."""


_KNOWN: dict[str, type[errors.TrainyardError]] = {
    "EntityAlreadyExists": _Exists,
    "NoSuchEntity": _Missing,
    "ConcurrentModification": errors.RetryableError,
    "ServiceFailure": errors.RetryableError,
}


class IamRoles:
    """The port `Roles`."""

    def __init__(self, iam: Any) -> None:
        self._iam = iam

    def ensure(self, role: NodeRole) -> None:
        try:
            with translated(f"create the role {role.name}", _KNOWN):
                self._iam.create_role(
                    RoleName=role.name,
                    Path=role.path,
                    AssumeRolePolicyDocument=json.dumps(role.trust),
                    PermissionsBoundary=role.boundary,
                    Description=(
                        "What the nodes of one Trainyard cluster may do, its jobs included."
                    ),
                    Tags=[{"Key": key, "Value": value} for key, value in role.tags.items()],
                )
        except _Exists:
            pass  # an earlier try made it; its policy may be missing
        with translated(
            f"give the role {role.name} its policy",
            {**_KNOWN, "NoSuchEntity": errors.RetryableError},
        ):
            self._iam.put_role_policy(
                RoleName=role.name, PolicyName=_POLICY, PolicyDocument=json.dumps(role.policy)
            )

    def delete(self, name: str, path: str) -> None:
        """Delete the role, which may be gone already.

        IAM knows no path of a missing role, and our policy allows only a path. So AWS refuses the
        call, and the list of roles decides.
        """
        try:
            self._delete(name)
        except _Denied as refused:
            if any(role.name == name for role in self.below(path)):
                message = f"AWS refused to delete the role {name}, which is there: {refused.detail}"
                raise errors.TrainyardError(message, next_step=NEXT_STEP) from refused

    def _delete(self, name: str) -> None:
        known = {**_KNOWN, "AccessDenied": _Denied}
        try:
            with translated(f"delete the policy of the role {name}", known):
                self._iam.delete_role_policy(RoleName=name, PolicyName=_POLICY)
        except _Missing:
            pass
        try:
            with translated(f"delete the role {name}", known):
                self._iam.delete_role(RoleName=name)
        except _Missing:
            pass

    def below(self, path: str) -> list[FoundRole]:
        return list(self._found(path))

    def _found(self, path: str) -> Iterator[FoundRole]:
        request: dict[str, Any] = {"PathPrefix": path, "MaxItems": 100}
        while True:
            with translated("list the roles of nodes"):
                answer = self._iam.list_roles(**request)
            for role in answer["Roles"]:
                yield FoundRole(
                    role["RoleName"], role["Path"], role["CreateDate"].astimezone(timezone.utc)
                )
            if not answer.get("IsTruncated"):
                return
            request["Marker"] = answer["Marker"]

"""Policies of nodes on IAM, where a backend makes the roles itself and we give them what they lack.

They lie below one path: the template allows no others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timezone
from typing import Any

from trainyard.aws.refusals import translated
from trainyard.domain import errors
from trainyard.outside.policies import FoundPolicy, NodePolicy


class _Exists(errors.TrainyardError):
    """The policy is there."""


class _Missing(errors.TrainyardError):
    """The policy is not there."""


class StillAttached(errors.RetryableError):
    """A role has the policy: its cluster is not quite gone."""


_KNOWN: dict[str, type[errors.TrainyardError]] = {
    "EntityAlreadyExists": _Exists,
    "NoSuchEntity": _Missing,
    "DeleteConflict": StillAttached,
    "ConcurrentModification": errors.RetryableError,
    "ServiceFailure": errors.RetryableError,
}


class IamPolicies:
    """The port `Policies`."""

    def __init__(self, iam: Any) -> None:
        self._iam = iam

    def ensure(self, policy: NodePolicy) -> None:
        """Its name is of one generation of a cluster, so one that is there says the same."""
        try:
            with translated(f"create the policy {policy.name}", _KNOWN):
                self._iam.create_policy(
                    PolicyName=policy.name,
                    Path=policy.path,
                    PolicyDocument=json.dumps(policy.document),
                    Description=(
                        "What the nodes of one Trainyard cluster may do, its jobs included."
                    ),
                    Tags=[{"Key": key, "Value": value} for key, value in policy.tags.items()],
                )
        except _Exists:
            pass

    def delete(self, arn: str) -> None:
        try:
            with translated(f"delete the policy {arn}", _KNOWN):
                self._iam.delete_policy(PolicyArn=arn)
        except _Missing:
            pass

    def below(self, path: str) -> list[FoundPolicy]:
        return list(self._found(path))

    def _found(self, path: str) -> Iterator[FoundPolicy]:
        request: dict[str, Any] = {"Scope": "Local", "PathPrefix": path, "MaxItems": 100}
        while True:
            with translated("list the policies of nodes"):
                answer = self._iam.list_policies(**request)
            for policy in answer["Policies"]:
                made = policy["CreateDate"].astimezone(timezone.utc)
                yield FoundPolicy(policy["Arn"], policy["Path"], made)
            if not answer.get("IsTruncated"):
                return
            request["Marker"] = answer["Marker"]

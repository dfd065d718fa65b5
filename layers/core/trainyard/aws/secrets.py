"""A cluster's own key in Secrets Manager: made here once, read by the nodes, never by a function."""

from __future__ import annotations

import secrets
from typing import Any

from trainyard.aws.refusals import translated
from trainyard.domain import errors


class _Exists(errors.TrainyardError):
    """The secret is there."""


class _Missing(errors.TrainyardError):
    """The secret is not there."""


#: Of CreateSecret it means that a secret of this name is scheduled for deletion, which takes a while even without recovery.
_LEAVING = {"InvalidRequestException": errors.RetryableError}


class SecretKeys:
    """The port `Secrets` on Secrets Manager."""

    def __init__(self, secretsmanager: Any, stage: str) -> None:
        self._secrets = secretsmanager
        self._tags = [{"Key": "trainyard:stage", "Value": stage}]

    def ensure(self, name: str) -> str:
        try:
            with translated(f"create the secret {name}", {"ResourceExistsException": _Exists, **_LEAVING}):
                made = self._secrets.create_secret(Name=name, SecretString=secrets.token_hex(32), Tags=self._tags)
        except _Exists:
            with translated(f"look at the secret {name}", {"ResourceNotFoundException": errors.RetryableError}):
                made = self._secrets.describe_secret(SecretId=name)
        return str(made["ARN"])

    def delete(self, name: str) -> None:
        try:
            with translated(f"delete the secret {name}", {"ResourceNotFoundException": _Missing}):
                self._secrets.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)
        except _Missing:
            return

"""Keys in Secrets Manager: of clusters, and of webhooks.

A cluster's is made once. Nodes read it to sign their reports, and the functions to verify them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

from trainyard.aws.refusals import translated
from trainyard.domain import errors
from trainyard_contracts.places import STAGE_TAG


class _Exists(errors.TrainyardError):
    """The secret is there."""


class _Missing(errors.TrainyardError):
    """The secret is not there."""


#: How long a key that was read is believed to be the secret's, also by who doubts it.
KEPT_SECONDS, FRESH_SECONDS = 300.0, 5.0
KEPT_KEYS = 1000
#: From CreateSecret it means that a secret of this name is scheduled for deletion, which takes a
#: while even without recovery.
_LEAVING = {"InvalidRequestException": errors.RetryableError}


class SecretKeys:
    """The port `Secrets` on Secrets Manager."""

    def __init__(
        self, secretsmanager: Any, stage: str, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._secrets = secretsmanager
        self._tags = [{"Key": STAGE_TAG, "Value": stage}]
        self._monotonic = monotonic
        self._read: dict[str, tuple[float, str | None]] = {}

    def ensure(self, name: str) -> str:
        try:
            with translated(
                f"create the secret {name}", {"ResourceExistsException": _Exists, **_LEAVING}
            ):
                made = self._secrets.create_secret(
                    Name=name, SecretString=secrets.token_hex(32), Tags=self._tags
                )
        except _Exists:
            with translated(
                f"look at the secret {name}", {"ResourceNotFoundException": errors.RetryableError}
            ):
                made = self._secrets.describe_secret(SecretId=name)
        return str(made["ARN"])

    def read(self, name: str, *, fresh: bool = False) -> str | None:
        """The secret, cached for a while, so that a flood of (forged) events makes few calls."""
        at, value = self._read.get(name, (0.0, None))
        if name not in self._read or self._monotonic() - at >= (
            FRESH_SECONDS if fresh or value is None else KEPT_SECONDS
        ):
            value = self._ask(name)
            self._forget_oldest()
            self._read[name] = (self._monotonic(), value)
        return value

    def write(self, name: str, value: str) -> None:
        self._read.pop(name, None)
        try:
            with translated(
                f"create the secret {name}", {"ResourceExistsException": _Exists, **_LEAVING}
            ):
                self._secrets.create_secret(Name=name, SecretString=value, Tags=self._tags)
        except _Exists:
            with translated(
                f"write the secret {name}", {"ResourceNotFoundException": errors.RetryableError}
            ):
                self._secrets.put_secret_value(SecretId=name, SecretString=value)

    def _ask(self, name: str) -> str | None:
        # A secret that is being deleted answers InvalidRequestException.
        try:
            with translated(
                f"read the secret {name}",
                {"ResourceNotFoundException": _Missing, "InvalidRequestException": _Missing},
            ):
                return str(self._secrets.get_secret_value(SecretId=name)["SecretString"])
        except _Missing:
            return None

    def _forget_oldest(self) -> None:
        while len(self._read) >= KEPT_KEYS:
            del self._read[next(iter(self._read))]

    def delete(self, name: str) -> None:
        try:
            with translated(f"delete the secret {name}", {"ResourceNotFoundException": _Missing}):
                self._secrets.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)
        except _Missing:
            return

"""Keeps the name of a deleted secret taken for a while.

Secrets Manager does so even when no recovery was asked for.
"""

from __future__ import annotations

import time
from typing import Any

from sam_on_moto.moto_patches.pinned import replace

#: AWS says only that the deletion is asynchronous and takes a while.
TAKEN_SECONDS = 2.0


def install() -> None:
    """Hook moto's Secrets Manager; once per process."""
    from moto.secretsmanager.exceptions import InvalidRequestException
    from moto.secretsmanager.models import SecretsManagerBackend

    gone: dict[str, float] = {}

    def delete(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = delete_now(self, *args, **kwargs)
        gone[answer[1]] = time.monotonic()
        return answer

    def create(self: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        if time.monotonic() - gone.get(name, -TAKEN_SECONDS) < TAKEN_SECONDS:
            raise InvalidRequestException(
                "You can't create this secret because a secret with this name is already "
                "scheduled for deletion."
            )
        gone.pop(name, None)
        return create_now(self, name, *args, **kwargs)

    delete_now = replace(SecretsManagerBackend, "delete_secret", delete)
    create_now = replace(SecretsManagerBackend, "create_secret", create)

"""IAM policies for tests, one statement each."""

from __future__ import annotations

from typing import Any


def statement(effect: str, action: Any, resource: Any, **condition: Any) -> dict[str, Any]:
    return {
        "Statement": [
            {
                "Effect": effect,
                "Action": action,
                "Resource": resource,
                **({"Condition": condition} if condition else {}),
            }
        ]
    }

"""Where every local cloud says that it is."""

from __future__ import annotations

REGION = "us-east-1"
ACCOUNT_ID = "123456789012"

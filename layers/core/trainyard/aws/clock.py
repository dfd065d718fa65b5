"""The clock and the ids: only here the control plane asks for the time or for chance."""

from __future__ import annotations

import secrets
from datetime import datetime, timezone

from ulid import ULID


class SystemClock:
    """The port `Clock`."""

    def now(self) -> datetime:
        return datetime.now(timezone.utc)


class Ulids:
    """The port `Ids`."""

    def ulid(self) -> str:
        return str(ULID())

    def random(self, count: int) -> bytes:
        return secrets.token_bytes(count)

"""A state machine that waits for a fact."""

from datetime import datetime
from typing import Literal

from trainyard.domain.record import Record

WaitKind = Literal["cluster", "outcome", "export", "teardown", "in-service", "deleted"]


class Wait(Record):
    """A state machine's task token that waits for a fact.

    `owner` is 'run:<id>', 'cluster:<name>' or 'teardown:<name>'.
    """

    owner: str
    kind: WaitKind
    token: str
    since: datetime
    woken_at: datetime | None = None

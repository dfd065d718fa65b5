"""What people's own rules hear of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from trainyard.domain.notices import Notice
from trainyard_contracts.user_events import UserEvent


@dataclass(frozen=True)
class UnsentNotice:
    """A notice that is in the table; `key` is opaque, to be struck off by."""

    notice: Notice
    key: tuple[str, str]


class Notices(Protocol):
    """What people's own rules hear of. `Runs` and `Clusters` write it with what it tells."""

    def unsent(self, at_most: int) -> list[UnsentNotice]:
        """Oldest first, then a fourth as many of those that were put off.

        One that was written or sent just now may be missing or there again.
        """
        ...

    def send(self, event: UserEvent) -> None:
        """Put it on the bus and the topic.

        Raises errors.RetryableError; one or both may have taken it all the same.
        """
        ...

    def sent(self, unsent: UnsentNotice) -> None:
        """Strike it off; a repetition changes nothing."""
        ...

    def postpone(self, unsent: UnsentNotice, now: datetime) -> None:
        """It was refused: others come first. One that was struck off stays so."""
        ...

    def run_changed(self, run_id: str) -> None:
        """Wake those who show the run, now that another state of it is stored.

        It raises nothing and may be lost: who shows runs looks at them each minute anyway.
        """
        ...

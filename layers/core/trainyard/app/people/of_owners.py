"""Whose things are: shared with others, and given to them."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.app.people.audited import Audited
from trainyard.app.people.ownership import Owned, given_to, shared, thing_of
from trainyard.domain.audit import Act
from trainyard.domain.people import refusal_to_own
from trainyard_contracts.people import Person


class OfOwners(Audited):
    """Share and transfer."""

    def share(self, record: Owned, patterns: Sequence[str], *, reason: str = "") -> Owned:
        """Let those whose ARN matches change it, too; this replaces who it was shared with."""
        thing = thing_of(self._ports, record)
        refused = refusal_to_own(self._ports.config.roles, self._by, thing)
        what: Act = f"{thing.kind}.share"  # type: ignore[assignment]  # of the kinds that have both
        return self._audited(
            self._entry(what, thing.subject, reason),
            refused,
            lambda: shared(self._ports, record, patterns),
        )

    def transfer(self, record: Owned, to: Person | None, *, reason: str = "") -> Owned:
        """Give it to another; without `to`, take it oneself."""
        thing = thing_of(self._ports, record)
        refused = refusal_to_own(self._ports.config.roles, self._by, thing)
        what: Act = f"{thing.kind}.transfer"  # type: ignore[assignment]  # of the kinds that have both
        return self._audited(
            self._entry(what, thing.subject, reason),
            refused,
            lambda: given_to(self._ports, record, to or self._by, by=self._by),
        )

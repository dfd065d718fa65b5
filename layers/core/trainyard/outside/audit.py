"""The list of changes in the table."""

from __future__ import annotations

from typing import Protocol

from trainyard.domain.audit import AuditEntry, AuditQuery
from trainyard.outside.pages import Page


class Audit(Protocol):
    """Who changed what. Entries expire after the time that the stack says."""

    def add(self, entry: AuditEntry) -> bool:
        """Keep it once by its id; False if it was there already."""
        ...

    def settle(self, entry: AuditEntry) -> None:
        """Replace the entry of this time and id by one that says how it ended."""
        ...

    def list(self, query: AuditQuery, *, limit: int, token: str | None) -> Page[AuditEntry]:
        """Newest first. A page may have fewer entries than `limit` and yet another page after it.

        Raises errors.BadPageToken.
        """
        ...

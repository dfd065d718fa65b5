"""The audit list as a person may see it: from where others asked, only admins see."""

from __future__ import annotations

from trainyard.app.people.on_behalf import OnBehalf
from trainyard.domain.audit import AuditEntry, AuditQuery
from trainyard.outside.pages import Page
from trainyard.ports import Ports


def read_audit(
    ports: Ports, asker: OnBehalf, query: AuditQuery, *, limit: int, token: str | None
) -> Page[tuple[AuditEntry, bool]]:
    """Each entry, and whether this person may see from where it came. Raises BadPageToken."""
    page = ports.audit.list(query, limit=limit, token=token)
    admin = asker.role == "admin"
    items = [
        (entry, admin or (entry.who is not None and entry.who.same_as(asker.person)))
        for entry in page.items
    ]
    return Page(items, page.next_token)

"""What the machine itself decides that spends or deletes is in the audit list, too."""

from __future__ import annotations

from trainyard.domain.audit import Act, AuditEntry
from trainyard.ports import Ports


def audit_own(ports: Ports, what: Act, subject: str, *, key: str, reason: str) -> None:
    """Once for each `key`, whatever is repeated; before it is done.

    If it cannot be written, the step fails and is tried again.
    """
    entry = AuditEntry(
        id=f"own-{what}-{key}",
        at=ports.clock.now(),
        what=what,
        subject=subject,
        reason=reason,
        outcome="decided",
    )
    ports.audit.add(entry)

"""Whether who owns an array or a schedule may still submit runs: each time that one begins.

People are known by the stack's roles alone. A user of IAM who is gone, and whom a role still
names, is not seen.
"""

from __future__ import annotations

from trainyard.domain.array_records import RunArray
from trainyard.domain.audit import Act, AuditEntry
from trainyard.domain.people import refusal, refusal_to_prefer
from trainyard.domain.schedule_records import Schedule
from trainyard.ports import Ports

_BEGINS: dict[str, Act] = {"array": "array.begin", "schedule": "schedule.fire"}


def why_not(ports: Ports, record: RunArray | Schedule) -> str:
    """Why its owner may submit no run now, and what to do; '' where they may.

    What an older version made has no owner, and goes on.
    """
    owner, roles = record.created_by, ports.config.roles
    if owner is None:
        return ""
    refused = refusal(roles, owner) or refusal_to_prefer(roles, owner, _priority(record))
    if refused is None:
        return ""
    kind, name = _named(record)
    return (
        f"Its owner may not submit it any more: {refused.detail} Give it to somebody who may: "
        f"trainyard {kind} transfer {name} --to ARN. It goes on then."
    )


def tell_admins(ports: Ports, record: RunArray | Schedule, key: str, words: str) -> None:
    """As each refusal it is in the audit list; once for each `key`, whatever is repeated.

    If it cannot be written, the step fails and is tried again.
    """
    kind, name = _named(record)
    what = _BEGINS[kind]
    entry = AuditEntry(
        id=f"own-{what}-{key}",
        at=ports.clock.now(),
        what=what,
        subject=f"{kind}/{name}",
        outcome="refused",
        detail=words[:500],
    )
    ports.audit.add(entry)


def _named(record: RunArray | Schedule) -> tuple[str, str]:
    return ("array", record.id) if isinstance(record, RunArray) else ("schedule", record.name)


def _priority(record: RunArray | Schedule) -> int:
    if isinstance(record, RunArray):
        return record.spec.run.priority
    return max(one.priority for one in record.spec.chain)

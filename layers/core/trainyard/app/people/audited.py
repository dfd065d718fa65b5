"""How a change is made that somebody asks for: allowed, in the audit list, and then done."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from trainyard.app.people.caller import Caller
from trainyard.app.people.ownership import Owned, thing_of
from trainyard.app.runs.refusals import Refusal, noted
from trainyard.domain.array_records import RunArray
from trainyard.domain.audit import Act, AuditEntry
from trainyard.domain.errors import Forbidden, TrainyardError
from trainyard.domain.filesystem_records import Filesystem
from trainyard.domain.people import Role, Thing, refusal, refusal_to_prefer, refusal_to_read
from trainyard.domain.records import Cluster, Run
from trainyard.domain.schedule_records import Schedule
from trainyard.domain.webhook_records import Webhook
from trainyard.ports import Ports
from trainyard_contracts.people import Person

_LOG = logging.getLogger(__name__)
T = TypeVar("T")


class Audited:
    """What all changes of one request have in common: the person, their role, the audit list.

    Only the audit list's own failure keeps an allowed change from being made.
    """

    def __init__(self, ports: Ports, caller: Caller) -> None:
        self._ports, self._caller, self._by = ports, caller, caller.person

    @property
    def person(self) -> Person:
        return self._by

    @property
    def role(self) -> Role | None:
        return self._ports.config.roles.of(self._by)

    def check_reads(self) -> None:
        """Raises Forbidden for one who has no role here."""
        raised(refusal_to_read(self._ports.config.roles, self._by))

    def check_changes(self, record: Owned | None = None) -> None:
        """Raises Forbidden for one who may not change it, or, without one, make anything.

        For what is only asked about: a change itself is checked when it is made.
        """
        thing = None if record is None else thing_of(self._ports, record)
        raised(self._refusal(0, thing))

    def why_refused(self, priority: int) -> list[Refusal]:
        """What keeps the person from making it; for a dry run, which everybody may ask for."""
        refused = self._refusal(priority)
        return [] if refused is None else [noted("", refused)]

    def _own(self, idempotency_key: str | None) -> str | None:
        """The key among this person's: what another one made by the same key is not theirs."""
        return None if idempotency_key is None else f"{self._by.id}/{idempotency_key}"

    def _why(self, reason: str) -> str:
        """What the act itself was given, or what came with the request."""
        return reason or self._caller.reason

    def _made(
        self,
        what: Act,
        subject: str,
        act: Callable[[], T],
        made: Callable[[T], str],
        *,
        priority: int = 0,
    ) -> T:
        refused = self._refusal(priority)
        return self._audited(self._entry(what, subject, ""), refused, act, made)

    def _changed(
        self,
        what: Act,
        record: Run | Cluster | Filesystem | RunArray | Schedule | Webhook,
        act: Callable[[], T],
        reason: str = "",
        *,
        subject: str | None = None,
        priority: int = 0,
    ) -> T:
        thing: Thing = thing_of(self._ports, record)
        refused = self._refusal(priority, thing)
        return self._audited(self._entry(what, subject or thing.subject, reason), refused, act)

    def _refusal(self, priority: int, thing: Thing | None = None) -> Forbidden | None:
        roles = self._ports.config.roles
        return refusal(roles, self._by, thing) or refusal_to_prefer(roles, self._by, priority)

    def _entry(self, what: Act, subject: str, reason: str) -> AuditEntry:
        caller = self._caller
        return AuditEntry(
            id=caller.request_id,
            at=caller.at,
            who=caller.person,
            what=what,
            subject=subject,
            reason=self._why(reason),
            source_ip=caller.source_ip,
            user_agent=caller.user_agent,
        )

    def _audited(
        self,
        entry: AuditEntry,
        refused: Forbidden | None,
        act: Callable[[], T],
        made: Callable[[T], str] | None = None,
    ) -> T:
        """Written before it is made, so that no change is without an entry."""
        if refused is not None:
            self._ports.audit.add(entry.changed(outcome="refused", detail=refused.detail))
            raise refused
        self._ports.audit.add(entry)
        try:
            done = act()
        except TrainyardError as error:
            self._settle(entry.changed(outcome="failed", detail=error.detail[:500]))
            raise
        subject = entry.subject if made is None else made(done)
        self._settle(entry.changed(outcome="done", subject=subject))
        return done

    def _settle(self, entry: AuditEntry) -> None:
        """The change is made, or not: that is the answer, whether its entry says so or not."""
        try:
            self._ports.audit.settle(entry)
        except TrainyardError as error:
            _LOG.error("audit entry %s stays 'asked': %s", entry.id, error.detail)


def raised(refused: Forbidden | None) -> None:
    if refused is not None:
        raise refused

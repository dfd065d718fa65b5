"""Each morning one message in the channel: once a day, however often and however late it is asked.

The day is marked before the message is sent, and the time that it tells of moves on after Slack
took it. So a process that dies in between leaves that day without a message, never with two, and
the next one tells of both.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from trainyard.app.audit.own_decisions import audit_own
from trainyard.chat.digest import digest_page
from trainyard.chat.news import news_since
from trainyard.chat.showing import quiet
from trainyard.chat.telling import OF_MESSAGE, Telling, Told
from trainyard.chat.threads import REFUSED_SECONDS, paused, say_once, tell
from trainyard.chat.web_api import Limited, SlackRefused
from trainyard.domain.errors import ConflictError, RetryableError
from trainyard.domain.thread_records import SlackDigest
from trainyard.ports import Ports
from trainyard_contracts.cron import zone_of
from trainyard_contracts.user_events import CHANGES, SOURCE

_LOG = logging.getLogger(__name__)
#: The name under which the log tells of it, among the ids of runs.
NAME = "digest"
#: The digest says nothing of what is older, such as after it was off for a month.
MOST_BEHIND = timedelta(days=7)


class Digests(Protocol):
    """Where the last digest is written down."""

    def digest(self) -> SlackDigest | None: ...

    def put_digest(self, digest: SlackDigest) -> SlackDigest:
        """Raises ConflictError if another wrote it meanwhile."""
        ...


@dataclass(frozen=True)
class Morning:
    """After this hour of each day in the zone, a name of the IANA database."""

    hour: int
    zone: str
    digests: Digests

    def day(self, now: datetime) -> str:
        """The newest day whose hour has come, as 2026-11-29. Raises ValueError for no zone.

        An hour that a day leaves out, or has twice, counts once: the hours are compared.
        """
        local = now.astimezone(zone_of(self.zone))
        back = timedelta(days=1 if local.hour < self.hour else 0)
        return (local.date() - back).isoformat()


def look(
    ports: Ports, telling: Telling, morning: Morning | None, event: Mapping[str, Any]
) -> list[Told]:
    """What one call shows: the digest if it is due, and runs."""
    told: list[Told] = []
    if morning is not None and event.get("source") not in (SOURCE, CHANGES):
        try:
            told = [Told(NAME, said)] if (said := _told(ports, telling, morning)) else []
        except Exception as error:  # noqa: BLE001  (a defect met by it keeps no run waiting)
            _LOG.exception("the digest is left out")
            told = [Told(NAME, f"failed: {error!r}"[:300])]
    return told + tell(ports, telling, event)


def _told(ports: Ports, telling: Telling, morning: Morning) -> str:
    """What was done; '' of nothing."""
    now, pause = ports.clock.now(), telling.threads.pause()
    try:
        day = morning.day(now)
    except ValueError as wrong:
        words = f"No digest is made: {wrong} in the stack's parameter SlackDigestZone."
        key = f"{telling.channel}-zone-{morning.zone}"
        audit_own(ports, "slack.refused", f"slack/{telling.channel}", key=key, reason=words)
        return f"failed: {wrong}"
    if pause is not None and now < pause.until:
        return ""
    before = morning.digests.digest()
    try:
        if before is None:
            morning.digests.put_digest(SlackDigest(day=day, since=now))
            return "the first comes with the next morning"
        return "" if before.day >= day else _sent(ports, telling, morning, before, day)
    except ConflictError:
        return "in hand"


def _sent(ports: Ports, telling: Telling, morning: Morning, before: SlackDigest, day: str) -> str:
    """Raises ConflictError if another call is at it."""
    digests = morning.digests
    news = news_since(ports, max(before.since, ports.clock.now() - MOST_BEHIND))
    if news.nothing:
        digests.put_digest(before.changed(day=day, since=news.until))
        return "nothing happened"
    wire = digest_page(ports, news).wire_of_channel()
    marked = digests.put_digest(before.changed(day=day))
    try:
        telling.api.call("chat.postMessage", {"channel": telling.channel, **quiet(wire)})
    except RetryableError as error:
        return f"nobody knows whether Slack took it, so it is not sent again: {error.detail}"[:300]
    except Limited as limited:
        digests.put_digest(marked.changed(day=before.day))
        return paused(ports, telling, limited.seconds, "")
    except SlackRefused as refused:
        if refused.error in OF_MESSAGE:
            digests.put_digest(marked.changed(since=news.until))
            _LOG.error("the digest is not shown: %s", refused.detail)
            return f"left out: {refused.detail}"
        digests.put_digest(marked.changed(day=before.day))
        say_once(ports, telling, telling.threads.pause(), refused.error)
        return paused(ports, telling, REFUSED_SECONDS, refused.error)
    digests.put_digest(marked.changed(since=news.until))
    return f"sent, of {day}"

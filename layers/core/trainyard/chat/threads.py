"""One message for each run in a channel, edited in place; its thread says what befell the run.

What is shown follows from the run as it is now. So an event that comes twice, late or out of order
changes nothing, and one that is lost is made up for by the look that open threads get each minute.
One that comes while another call shows the run is counted, and that call looks once more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from trainyard.app.audit.own_decisions import audit_own
from trainyard.chat.showing import Showing
from trainyard.chat.telling import Telling, Told
from trainyard.chat.web_api import Limited, SlackRefused
from trainyard.domain.errors import RunNotFound, TrainyardError
from trainyard.domain.thread_records import SlackPause
from trainyard.ports import Ports
from trainyard_contracts.user_events import CHANGES, SOURCE

_LOG = logging.getLogger(__name__)
#: After a refusal of the app or the channel, Slack is asked again so much later.
REFUSED_SECONDS = 600
#: Threads that one look reads, and how long it goes on with the next one.
MOST_THREADS, LOOK_SECONDS = 200, 20
#: Looks of one call at a run to which more happens meanwhile.
MOST_LOOKS = 5
#: The result of a call that finds another at the same run.
IN_HAND = "in hand"


def tell(ports: Ports, telling: Telling, event: Mapping[str, Any]) -> list[Told]:
    """Of an event about a run, its thread; at any other call, all that are open."""
    if event.get("source") not in (SOURCE, CHANGES):
        return list(_all(ports, telling))
    detail = event.get("detail")
    run = detail.get("run") if isinstance(detail, Mapping) else None
    run_id = run.get("id") if isinstance(run, Mapping) else None
    if not isinstance(run_id, str) or not run_id:
        return []
    if telling.threads.get(run_id) is None and not _has_message(ports, run_id):
        return [Told(run_id, "none")]
    telling.threads.wake(run_id, telling.channel)
    return list(_untilquiet(ports, telling, run_id))


def _untilquiet(ports: Ports, telling: Telling, run_id: str) -> Iterator[Told]:
    """Look again as long as events come that found the run in this hand."""
    for _ in range(MOST_LOOKS):
        seen = telling.threads.get(run_id)
        told = tell_run(ports, telling, run_id)
        yield told
        now = telling.threads.get(run_id)
        if told.result == IN_HAND or seen is None or now is None or now.wakes == seen.wakes:
            return


def _has_message(ports: Ports, run_id: str) -> bool:
    """A member of an array has none: there may be thousands."""
    try:
        return ports.runs.get(run_id).array is None
    except RunNotFound:
        return False


def _all(ports: Ports, telling: Telling) -> Iterator[Told]:
    """One that cannot be shown keeps no other from it."""
    begun = ports.clock.now()
    for thread in telling.threads.open_ones(MOST_THREADS):
        if ports.clock.now() - begun > timedelta(seconds=LOOK_SECONDS):
            return
        try:
            told = tell_run(ports, telling, thread.run_id)
        except Exception as error:  # noqa: BLE001  (a defect met by one keeps no other waiting)
            _LOG.exception("the thread of %s is left as it is", thread.run_id)
            told = Told(thread.run_id, f"failed: {error!r}"[:300])
        yield told
        if told.result.startswith("paused"):
            return


def tell_run(ports: Ports, telling: Telling, run_id: str) -> Told:
    """Show the run as it is. Whatever Slack answers is no error: the next look tries again."""
    pause = telling.threads.pause()
    if pause is not None and ports.clock.now() < pause.until:
        return Told(run_id, f"paused until {pause.until:%H:%M:%S}")
    mark = f"thread-{run_id}"
    if not telling.claims.take(mark):
        return Told(run_id, IN_HAND)
    try:
        result = Showing(ports, telling, pause).show(run_id)
    except Limited as limited:
        trouble = pause.trouble if pause is not None else ""
        return Told(run_id, paused(ports, telling, limited.seconds, trouble))
    except SlackRefused as refused:
        say_once(ports, telling, pause, refused.error)
        return Told(run_id, paused(ports, telling, REFUSED_SECONDS, refused.error))
    except TrainyardError as error:
        return Told(run_id, f"later: {error.detail}"[:300])
    finally:
        telling.claims.give_back(mark)
    return Told(run_id, result)


def paused(ports: Ports, telling: Telling, seconds: int, trouble: str) -> str:
    until = ports.clock.now() + timedelta(seconds=seconds)
    telling.threads.put_pause(SlackPause(until=until, trouble=trouble))
    return f"paused for {seconds} s: {trouble or 'too many calls'}"


def say_once(ports: Ports, telling: Telling, pause: SlackPause | None, error: str) -> None:
    """In the audit list; not again while the same trouble lasts, nor twice on one day."""
    if pause is not None and pause.trouble == error:
        return
    words = f"Slack refuses messages about runs: {error}. They wait until it takes them again."
    key = f"{telling.channel}-{error}-{ports.clock.now():%Y-%m-%d}"
    audit_own(ports, "slack.refused", f"slack/{telling.channel}", key=key, reason=words)

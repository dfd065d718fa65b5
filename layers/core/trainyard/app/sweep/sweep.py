"""Each minute: repair what lost events, crashes between calls, and dead machines left behind.

A sweep ends before the time of its function is over. What is slow, such as a controller that does
not answer, keeps nothing else waiting: a duty has its share of the time, those that speak to nodes
come last, and each sweep begins with others of the runs and clusters.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from trainyard.app.sweep.ask_backends import Unanswered
from trainyard.app.sweep.duties import QUICK, SLOW, Duty, in_turn
from trainyard.app.sweep.swept import Swept
from trainyard.app.sweep.swept_names import name_of
from trainyard.domain.errors import ConflictError, TrainyardError
from trainyard.ports import Ports

#: A duty that took so long leaves what is left to the next sweep.
DUTY_SECONDS = 10.0
#: After so long nothing else is begun. The function has 60 s.
SWEEP_SECONDS = 45.0
#: Nor anything that speaks to a node, which may take 20 s.
SLOW_SECONDS = 35.0
#: The action by which a sweep tells what it had no time for.
PUT_OFF = "put off"


def sweep(ports: Ports, timer: Callable[[], float] = time.monotonic) -> list[Swept]:
    """Do every duty for each of its items, as far as the time goes.

    The sweep reports a duty that fails for an item, and goes on with the next. `timer` counts
    seconds.
    """
    began = timer()
    duties = [(duty, SWEEP_SECONDS) for duty in QUICK]
    duties += [(duty, SLOW_SECONDS) for duty in in_turn(ports, SLOW)]
    return [swept for duty, most in duties for swept in _done(ports, duty, timer, began + most)]


def _done(ports: Ports, given: Duty, timer: Callable[[], float], end: float) -> Iterator[Swept]:
    listing, duty = given
    until = min(end, timer() + DUTY_SECONDS)
    try:
        items = listing(ports) if timer() < end else None
    except Exception as error:  # noqa: BLE001  (the other duties have their turn)
        yield _failed(duty.__name__, error)
        return
    if items is None:
        yield Swept(PUT_OFF, duty.__name__, "all of it is left to the next sweep")
        return
    for place, item in enumerate(items):
        if timer() >= until:
            left = f"{len(items) - place} of {len(items)} are left to the next sweep"
            yield Swept(PUT_OFF, duty.__name__, left)
            return
        yield from _done_for(ports, duty, item)


def _done_for(
    ports: Ports, duty: Callable[[Ports, Any], Iterator[Swept]], item: Any
) -> Iterator[Swept]:
    if isinstance(item, Unanswered):
        yield _failed(f"{duty.__name__} {item.name}", item.error)
        return
    try:
        yield from duty(ports, item)
    except ConflictError:
        return  # another process changes it right now; the next sweep looks again
    except Exception as error:  # noqa: BLE001  (a defect met by one keeps no other waiting)
        yield _failed(f"{duty.__name__} {name_of(item)}", error)


def _failed(subject: str, error: Exception) -> Swept:
    """What is none of our errors is a defect, and says where."""
    if isinstance(error, TrainyardError):
        return Swept("failed", subject, f"{error.code}: {error.detail}")
    place = traceback.extract_tb(error.__traceback__)[-1]
    return Swept("failed", subject, f"{error!r} at {place.filename}:{place.lineno}")

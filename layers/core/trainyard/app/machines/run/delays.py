"""Notes in a run's timeline, once, why a step is delayed.

Step Functions repeats such a step for minutes, and its run's timeline must say why.
"""

from __future__ import annotations

from trainyard.domain.errors import TrainyardError
from trainyard.domain.records import TimelineEntry
from trainyard.ports import Ports


def tell_delay(ports: Ports, run_id: str, key: str, what: str, error: TrainyardError) -> None:
    """Write one line into the run's timeline.

    `key` names what is delayed, so that a repetition of the step adds no second line.
    """
    message = f"{what}: {error.detail.rstrip('.')[:800]}. It is tried again."
    ports.runs.note(
        run_id,
        TimelineEntry(
            id=f"status-delayed-{key}",
            at=ports.clock.now(),
            kind="status",
            type="Delayed",
            message=message,
        ),
    )

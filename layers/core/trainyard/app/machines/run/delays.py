"""What holds a step up is told once.

Step Functions repeats it for minutes, and whoever looks at the run meanwhile wants to know why.
"""

from __future__ import annotations

from trainyard.domain.errors import TrainyardError
from trainyard.domain.records import TimelineEntry
from trainyard.ports import Ports


def tell_delay(ports: Ports, run_id: str, key: str, what: str, error: TrainyardError) -> None:
    """One line in the run's timeline.

    `key` names what is delayed, so that its repetitions are not told again.
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

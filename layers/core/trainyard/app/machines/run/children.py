"""What a run's end sets going: the runs that wait for it, and the next member of its array.

Where that is lost, the sweep sees what may go on.
"""

from __future__ import annotations

import contextlib

from trainyard.app.facts.waking import wake_run
from trainyard.app.runs.advance_array import member_ended
from trainyard.domain.errors import ArrayNotFound, RecordUnreadable
from trainyard.domain.records import Run
from trainyard.ports import Ports


def wake_children(ports: Ports, run: Run) -> None:
    """Twice or late is harmless: each decides for itself whether it can begin."""
    for child in ports.runs.children(run.id):
        wake_run(ports, child)
    with contextlib.suppress(ArrayNotFound, RecordUnreadable):  # the run has ended all the same
        member_ended(ports, run)

"""Wakes the runs that wait for a run's end; where that is lost, the sweep sees that they may go."""

from __future__ import annotations

from trainyard.app.facts.waking import wake_run
from trainyard.domain.records import Run
from trainyard.ports import Ports


def wake_children(ports: Ports, run: Run) -> None:
    """Twice or late is harmless: each decides for itself whether it can begin."""
    for child in ports.runs.children(run.id):
        wake_run(ports, child)

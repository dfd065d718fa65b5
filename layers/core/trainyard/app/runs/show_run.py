"""One run with the newest sample of its training."""

from __future__ import annotations

from trainyard.app.clusters.list_nodes import newest_heartbeats
from trainyard.domain.records import Run
from trainyard.ports import Ports
from trainyard_contracts.events import RunSample


def show_run(ports: Ports, run_id: str) -> tuple[Run, RunSample | None]:
    """Raises RunNotFound."""
    run = ports.runs.get(run_id)
    return run, latest_sample(ports, run)


def latest_sample(ports: Ports, run: Run) -> RunSample | None:
    """The run's sample in its cluster's newest heartbeat, if that heartbeat knows the run."""
    mine = [
        sample
        for beat in newest_heartbeats(ports, run.cluster_name, 1)
        for sample in beat.runs
        if sample.run_id == run.id
    ]
    return max(mine, key=lambda sample: sample.attempt, default=None)

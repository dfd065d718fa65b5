"""One run with the newest sample of its training."""

from __future__ import annotations

from trainyard.app.clusters.list_nodes import newest_heartbeats
from trainyard.domain.book import Book
from trainyard.domain.records import Run
from trainyard.ports import Ports
from trainyard_contracts.events import AttemptEnded, RunSample


def show_run(ports: Ports, run_id: str) -> tuple[Run, RunSample | None]:
    """Raises RunNotFound."""
    run = ports.runs.get(run_id)
    return run, latest_sample(ports, run) or last_sample(ports, run)


def latest_sample(ports: Ports, run: Run) -> RunSample | None:
    """The run's sample in its cluster's newest heartbeat, if that heartbeat knows the run."""
    mine = [
        sample
        for beat in newest_heartbeats(ports, run.cluster_name, 1)
        for sample in beat.runs
        if sample.run_id == run.id
    ]
    return max(mine, key=lambda sample: sample.attempt, default=None)


def last_sample(ports: Ports, run: Run) -> RunSample | None:
    """Where training stood when the run's newest attempt ended; heartbeats forget it."""
    attempt = run.attempt
    if attempt is None or attempt.ended_at is None:
        return None
    ends = Book(ports.runs.facts(run.id, attempt.number)).of(AttemptEnded)
    mine = [end for end in ends if end.attempt == attempt.number and end.last_step is not None]
    if not mine:
        return None
    return RunSample(
        run_id=run.id, attempt=attempt.number, step=mine[-1].last_step, loss=mine[-1].last_loss
    )

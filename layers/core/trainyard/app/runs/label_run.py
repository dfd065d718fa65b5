"""Change labels and the priority of a run: what is named, and nothing else of it."""

from __future__ import annotations

from collections.abc import Mapping

from trainyard.app.clusters.labelled import labelled
from trainyard.app.runs.give_turns import give_turns
from trainyard.domain.records import Run
from trainyard.domain.turns import waits
from trainyard.ports import Ports


def label_run(
    ports: Ports,
    run_id: str,
    changes: Mapping[str, str | None],
    *,
    priority: int | None = None,
    version: int | None = None,
) -> Run:
    """Set labels, and take those away whose value is None; the same again changes nothing.

    Both say whose turn it is on a shared cluster.

    With `version`, only if the run is of it. Raises RunNotFound, InvalidRequest,
    PreconditionFailed.
    """
    run = labelled(
        lambda: ports.runs.get(run_id),
        ports.runs.put,
        changes,
        version=version,
        priority=priority,
    )
    if waits(run):
        give_turns(ports, run.cluster_name)
    return run

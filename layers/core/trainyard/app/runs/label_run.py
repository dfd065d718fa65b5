"""Change the labels of a run: those that are named, and nothing else of it."""

from __future__ import annotations

from collections.abc import Mapping

from trainyard.app.clusters.labelled import labelled
from trainyard.domain.records import Run
from trainyard.ports import Ports


def label_run(
    ports: Ports,
    run_id: str,
    changes: Mapping[str, str | None],
    *,
    version: int | None = None,
) -> Run:
    """Set labels, and take those away whose value is None; the same again changes nothing.

    With `version`, only if the run is of it. Raises RunNotFound, InvalidRequest,
    PreconditionFailed.
    """
    return labelled(lambda: ports.runs.get(run_id), ports.runs.put, changes, version=version)

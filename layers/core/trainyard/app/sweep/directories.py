"""Directories of training jobs' runs in S3: each goes once its run is long over and its verified
export has what is in it. Nobody else deletes them, and a run without an export keeps its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from trainyard.app.machines.run.export_run import lacks
from trainyard.app.sweep.swept import Swept
from trainyard.domain.directories import kept_because
from trainyard.domain.errors import RecordUnreadable, RunNotFound
from trainyard.domain.records import Run, TimelineEntry
from trainyard.ports import Directory, Ports

#: The minute of each hour at which directories are looked at.
MINUTE = 40
#: So many clusters' directories are looked at in one sweep; each hour begins with others.
CLUSTERS_AT_ONCE = 100
#: So many objects are deleted in one sweep, of one directory.
OBJECTS_AT_ONCE = 5000


def directories(ports: Ports) -> Sequence[Directory]:
    """Some of them, once an hour: there may be thousands, and no event says when one's time is
    over.
    """
    now = ports.clock.now()
    if now.minute != MINUTE:
        return []
    clusters = sorted(ports.directories.clusters())
    return [one for name in _some(clusters, now) for one in ports.directories.of(name)]


def _some(clusters: Sequence[str], now: datetime) -> Sequence[str]:
    if not clusters:
        return []
    begin = int(now.timestamp() // 3600) * CLUSTERS_AT_ONCE % len(clusters)
    return [*clusters[begin:], *clusters[:begin]][:CLUSTERS_AT_ONCE]


def old_directory(ports: Ports, directory: Directory) -> Iterator[Swept]:
    """Note in the run's record that its directory goes, then delete it: once that is noted, nobody
    resumes the run from there.
    """
    try:
        run = ports.runs.get(directory.run_id)
    except (RunNotFound, RecordUnreadable):
        return  # what no record accounts for may be the only copy
    if run.cluster_name != directory.cluster:
        return
    if run.directory_deleted_at is None:
        if kept_because(run, ports.clock.now()) or lacks(ports, run):
            return
        _note(ports, run)
    if count := ports.directories.delete(directory, OBJECTS_AT_ONCE):
        yield Swept("directory deleted", run.id, f"{count} objects; its verified export has them")


def _note(ports: Ports, run: Run) -> None:
    """Raises ConflictError if somebody resumes the run at this moment."""
    now = ports.clock.now()
    line = TimelineEntry(
        id=f"status-directory-{run.life}",
        at=now,
        kind="status",
        type="DirectoryDeleted",
        message="The run's directory in S3 is deleted: the run is over for long, and its verified "
        "export has what was in it.",
    )
    ports.runs.put(run.changed(directory_deleted_at=now), [line])

"""Directories of training jobs' runs in S3: each goes once its run is long over and its verified
export has what is in it. Nobody else deletes them, and a run without an export keeps its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainyard.app.audit.own_decisions import audit_own
from trainyard.app.machines.run.export_run import lacks
from trainyard.app.sweep.swept import Swept
from trainyard.domain.directories import in_order, kept_because
from trainyard.domain.errors import RecordUnreadable, RunNotFound
from trainyard.domain.records import Run, TimelineEntry
from trainyard.outside.directories import Directory
from trainyard.ports import Ports

#: So many objects are deleted in one sweep.
OBJECTS_AT_ONCE = 5000


def directories(ports: Ports) -> Sequence[Directory]:
    """One of them in each sweep, in turn: there may be thousands, each needs many requests, and no
    event says when one's time is over.
    """
    turn = int(ports.clock.now().timestamp() // 60)
    if not (clusters := sorted(ports.directories.clusters())):
        return []
    round_, which = divmod(turn, len(clusters))
    found = ports.directories.of(clusters[which])
    return [found[round_ % len(found)]] if found else []


def old_directory(ports: Ports, directory: Directory) -> Iterator[Swept]:
    """Note in the run's record that its directory goes, then delete it: once that is noted, nobody
    resumes the run from there. What is left is compared with the export before each delete.
    """
    try:
        run = ports.runs.get(directory.run_id)
    except (RunNotFound, RecordUnreadable):
        return  # what no record accounts for may be the only copy
    if run.cluster_name != directory.cluster:
        return
    noted = run.directory_deleted_at is not None
    if not noted and kept_because(run, ports.clock.now()):
        return
    held = ports.directories.files(directory)
    if not held or lacks(ports, run, held):
        return
    if not noted:
        _note(ports, run)
    why = "The run is over for long, and its verified export has what was in it."
    key = f"{run.id}-{run.life}"
    audit_own(ports, "run.delete-directory", f"run/{run.id}", key=key, reason=why)
    paths = in_order(held)[:OBJECTS_AT_ONCE]
    ports.directories.delete(directory, paths)
    yield Swept("directory deleted", run.id, f"{len(paths)} objects; its verified export has them")


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

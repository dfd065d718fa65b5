"""When the directory in S3 of a run of training jobs may go: the run is over for long, and its
export has everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from trainyard.domain.records import Run
from trainyard_contracts import places

#: A run's directory in S3 stays so long after the run's end, for a resume.
KEEP_DIRECTORY_SECONDS = 30 * 86400
#: An export of more objects is not looked at again, for want of time; its run's directory stays.
MOST_OBJECTS = 5000
#: In a run's directory, how deep the directory of one checkpoint, or of the final model, lies.
_DEPTHS = {places.CHECKPOINTS: 2, places.WATCHED: 3, places.FINAL: 1}


def kept_because(run: Run, now: datetime) -> str:
    """Why the directory stays; '' if only a look at the export itself is left to do."""
    if not run.terminal or run.finished_at is None:
        return "the run is not over"
    if now < run.finished_at + timedelta(seconds=KEEP_DIRECTORY_SECONDS):
        return "the run may still be resumed"
    export = run.export
    if not run.spec.export.enabled or export is None:
        return "it is the only copy: the run was not exported"
    if export.state != "verified" or not export.final:
        return "it is the only copy: the last export was not verified"
    if export.left_behind or export.found_nothing:
        return "it may be the only copy: the export does not have all"
    if export.objects > MOST_OBJECTS:
        return "there is no time to look at all objects of its export"
    return ""


def beyond(held: Mapping[str, int], exported: Mapping[str, int]) -> str:
    """The first file of a run's directory that its export does not have; '' if it has all.

    Both are sizes by path. Nobody can begin with files of a checkpoint that has no manifest.
    """
    for path, size in held.items():
        if exported.get(path) != size and not _torn(path, held):
            return path
    return ""


def in_order(held: Mapping[str, int]) -> Sequence[str]:
    """Manifests first: what is half deleted must not look whole."""
    return sorted(held, key=lambda path: not path.endswith(f"/{places.CHECKPOINT_MANIFEST}"))


def _torn(path: str, held: Mapping[str, int]) -> bool:
    parts = path.split("/")
    depth = _DEPTHS.get(parts[0])
    if depth is None:
        return False
    return "/".join([*parts[:depth], places.CHECKPOINT_MANIFEST]) not in held

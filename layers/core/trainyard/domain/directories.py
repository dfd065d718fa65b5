"""When the directory in S3 of a run of training jobs may go: the run is over for long, and its
export has everything.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from trainyard.domain.records import Run

#: A run's directory in S3 stays so long after the run's end, for a resume.
KEEP_DIRECTORY_SECONDS = 30 * 86400


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
    return ""

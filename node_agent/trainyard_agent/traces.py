"""Reads what a job left in its attempt's directory: its log, its launchers' reports, and whether anything can be written there at all."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from pathlib import Path

from trainyard_agent import job_files
from trainyard_agent.evidence import Launch

log = logging.getLogger(__name__)

#: What a filesystem must take to count as writable.
PROBE_BYTES = 64 * 1024


def read_tail(path: Path, limit: int) -> str:
    """The last `limit` bytes of a text file at most, whole lines; '' if there is none."""
    try:
        body = job_files.read_tail(path.parent, path, limit + 1)
    except OSError:
        return ""
    if len(body) > limit:
        body = body[1:].partition(b"\n")[2] or body[1:]
    return body.decode(errors="replace").encode()[-limit:].decode(errors="ignore")


def read_launches(directory: Path) -> list[Launch]:
    """Every launcher's report; one that cannot be read says nothing."""
    found = []
    for path in sorted(directory.glob("launch-*.json")):
        try:
            found.append(Launch.from_json(json.loads(job_files.read_small(directory, path))))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("%s cannot be read: %s", path, error)
    return found


def unwritable(directory: Path) -> str | None:
    """Why nothing can be written there ('No space left on device'), None if it can. A job cannot write that down itself."""
    try:
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(b"\0" * PROBE_BYTES)
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error.strerror or str(error)
    return None

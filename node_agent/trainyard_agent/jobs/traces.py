"""Reads what a job left in its attempt's directory: its log and its launchers' reports.

It also finds out whether that directory can be written.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections import deque
from pathlib import Path

from trainyard_agent.host import job_files
from trainyard_contracts import places
from trainyard_contracts.launch_report import LaunchReport

log = logging.getLogger(__name__)

# What a filesystem must take to count as writable.
PROBE_BYTES = 64 * 1024
#: So much of a log's end is searched at most: who asks waits for it.
SEARCHED_BYTES = 1024**3
# A line that is longer is searched in parts.
LINE_BYTES = 64 * 1024


def log_tail(path: Path, limit: int, start: int = 0, *, root: Path | None = None) -> str:
    """The last `limit` bytes of a text file at most, whole lines; nothing before `start`.

    No link is followed below `root`, which is the file's directory unless it is given. Raises
    OSError.
    """
    body = job_files.read_tail(root or path.parent, path, limit + 1, start)
    if len(body) > limit:
        body = body[1:].partition(b"\n")[2] or body[1:]
    return body.decode(errors="replace").encode()[-limit:].decode(errors="ignore")


def read_tail(path: Path, limit: int, start: int = 0, *, root: Path | None = None) -> str:
    """The same; '' if there is none, or it cannot be read."""
    try:
        return log_tail(path, limit, start, root=root)
    except OSError:
        return ""


def matching_lines(
    path: Path, text: bytes, most: int, limit: int, start: int = 0, *, root: Path | None = None
) -> str:
    """The last lines that contain a text; '' if there is none. Of a huge log its end is read, and
    nothing before `start`.
    """
    found: deque[bytes] = deque(maxlen=most)
    try:
        with job_files.open_inside(root or path.parent, path) as stream:
            stream.seek(max(start, os.fstat(stream.fileno()).st_size - SEARCHED_BYTES))
            while line := stream.readline(LINE_BYTES):
                if text in line:
                    found.append(line)
    except OSError:
        return ""
    body = b"\n".join(line.rstrip(b"\r\n") for line in found)
    return body[-limit:].decode(errors="replace")


def read_launches(directory: Path) -> list[LaunchReport]:
    """Every launcher's report; one that cannot be read says nothing."""
    try:
        names = [name for name in os.listdir(directory) if places.is_launch_report(name)]
    except OSError as error:
        log.warning("the launchers' reports in %s cannot be listed: %s", directory, error)
        return []
    found = []
    for path in (directory / name for name in sorted(names)):
        try:
            said = json.loads(job_files.read_small(directory, path))
            found.append(LaunchReport.model_validate(said))
        except (OSError, ValueError, RecursionError) as error:
            log.warning("%s cannot be read: %s", path, error)
    return found


def unwritable(directory: Path) -> str | None:
    """Why nothing can be written there ('No space left on device'), None if it can.

    A job cannot write that down itself.
    """
    try:
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(b"\0" * PROBE_BYTES)
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error.strerror or str(error)
    return None

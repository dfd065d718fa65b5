"""Removes what killed jobs leave of their images: Pyxis does so only where a step ends by itself.

A job's unpacked image has the size of the image, so some recoveries would fill a node's disk.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
from collections.abc import Collection

log = logging.getLogger(__name__)

#: By Pyxis: the job and the step, with the job before them where containers belong to jobs.
_OF_JOB = re.compile(r"^pyxis_(?:\d+_)?(\d+)\.\d+$")
_SECONDS = 600.0


def remove_left(job_ids: Collection[str]) -> int:
    """How many containers of these jobs were removed. It takes as long as to delete the files, and
    never raises.
    """
    program = shutil.which("enroot")
    # On a local cloud the machine's Enroot is not the node's.
    if not job_ids or program is None or os.environ.get("TRAINYARD_ROOT"):
        return 0
    names = [
        name
        for name in _run([program, "list"]).split()
        if (found := _OF_JOB.match(name)) and found[1] in job_ids
    ]
    for name in names:
        _run(["nice", "-n", "19", program, "remove", "--force", name])
        log.info("removed the container %s, which a killed job left", name)
    return len(names)


def _run(command: list[str]) -> str:
    """Its output; '' where it failed: the containers are looked at again after the next kill."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
            env={"HOME": "/root", **os.environ},
        )
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        log.warning("%s: %s", " ".join(command), error)
        return ""
    if done.returncode != 0:
        log.warning("%s ended with %d: %s", command[0], done.returncode, done.stderr[-300:])
    return done.stdout

"""Recipe `command`: runs the program once on every node, as a plain Python process; the program
itself decides how its processes find each other.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from .. import own_log
from ..allocation import Allocation


def run(allocation: Allocation) -> NoReturn:
    """Become the program; how it ends is read from its exit and its error file."""
    os.environ["TORCHELASTIC_ERROR_FILE"] = str(allocation.job.error_file(allocation.node.name))
    own_log.without_ranks()
    program = [
        sys.executable,
        "-u",
        "-m",
        "trainyard_trainers.launch.program",
        *allocation.job.command(),
    ]
    os.execv(sys.executable, program)  # noqa: S606

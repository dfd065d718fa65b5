"""Builds the packages that agents import on nodes that boot.

They are made beside the template's sources, as `sam build` makes them for AWS.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainyard_local.machines.host import Impossible


def ready(template: Path, tell: Callable[[str], Any]) -> None:
    """Build the packages of the node layer beside this template.

    Not if they are newer than what they are made of. A template without such a layer gets none.
    Raises Impossible when they cannot be built.
    """
    layer = template.parent / "node_agent"
    script, pins, packages = layer / "build_packages.py", layer / "packages.txt", layer / "packages"
    if not (script.is_file() and pins.is_file()):
        return
    with script.open() as lock:  # one builder at a time; the others wait for its result
        fcntl.flock(lock, fcntl.LOCK_EX)
        last = packages / "pip.whl"
        if last.is_file() and last.stat().st_mtime >= max(
            script.stat().st_mtime, pins.stat().st_mtime
        ):
            return
        tell("building the packages of the nodes' agents (once; some minutes)")
        done = subprocess.run(
            [sys.executable, str(script), str(packages)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        said = next(
            (line for line in reversed(lines) if line.startswith("ERROR:")),
            lines[-1] if lines else f"status {done.returncode}",
        )
        raise Impossible(
            f"the packages of the nodes' agents cannot be built: {said}",
            "Is pip's package index reachable from here?",
        )

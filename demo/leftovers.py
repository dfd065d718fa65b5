"""Which processes of a local cloud are still there: found by the environment every one of them carries."""

from __future__ import annotations

import os
from pathlib import Path


def processes_of(state_dir: Path, also: str = "") -> dict[int, str]:
    """pid -> command line of every process tagged with this state directory (and a variable that starts with `also`), but for this one."""
    tag = f"TRAINYARD_LOCAL={state_dir.resolve()}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # it ended, or is not ours to read
            continue
        # A zombie has no command line, and holds nothing.
        if command and tag in variables and any(variable.startswith(also.encode()) for variable in variables):
            found[int(entry.name)] = command
    return found

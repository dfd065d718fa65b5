"""An id of the node's present boot.

A node that reboots within seconds has lost its jobs, too, and only a new id shows that.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from trainyard_agent.host.atomic_file import replace_file


def boot_id() -> str:
    """The same until the node is switched off.

    It is kept where a reboot empties the directory, and where a new instance has nothing.
    """
    path = Path(os.environ.get("TRAINYARD_ROOT") or "/", "var/run/trainyard-boot")
    try:
        return path.read_text().strip() or _made(path)
    except FileNotFoundError:
        return _made(path)


def _made(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    made = uuid.uuid4().hex
    replace_file(path, made.encode(), mode=0o666, durable=False)
    return made

"""This node's Slurm daemon listens: slurmd on workers, slurmctld on the controller.

That is read from the kernel's table, not by connecting.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from trainyard_agent.checks import Node, Verdict

EVERY_SECONDS, CONFIRM = 10.0, 2
_CONFIGURATIONS = (
    "/opt/slurm/etc/slurm.conf",
    "/var/spool/slurmd/conf-cache/slurm.conf",
    "/etc/slurm/slurm.conf",
)
_LISTEN = "0A"


@dataclass(frozen=True)
class Reading:
    daemon: str
    port: int
    listening: bool


def read(node: Node) -> Reading | None:
    if node.config.role == "login":
        return None
    daemon = "slurmctld" if node.config.role == "controller" else "slurmd"
    candidates = [node.config.slurm_conf, os.environ.get("SLURM_CONF"), *_CONFIGURATIONS]
    text = next(
        (with_includes(Path(path)) for path in candidates if path and Path(path).is_file()), ""
    )
    port = port_of(text, daemon, node.config.node_name)
    return Reading(
        daemon,
        port,
        any(port in _listening(Path(table)) for table in ("/proc/net/tcp", "/proc/net/tcp6")),
    )


def with_includes(path: Path) -> str:
    """slurm.conf and the files that it names with Include.

    One level, as Slurm's own tools write them.
    """
    text = path.read_text(errors="replace")
    included = (path.parent / name for name in re.findall(r"(?im)^\s*include\s+(\S+)", text))
    return "\n".join(
        [text, *(other.read_text(errors="replace") for other in included if other.is_file())]
    )


def port_of(slurm_conf: str, daemon: str, node_name: str) -> int:
    """The daemon's TCP port.

    The node's own Port, else SlurmdPort or SlurmctldPort (a range means its first), else Slurm's
    default.
    """
    if daemon == "slurmd":
        own = re.search(rf"(?im)^\s*NodeName={re.escape(node_name)}\s.*?\bPort=(\d+)", slurm_conf)
        if own:
            return int(own.group(1))
    named = re.search(rf"(?im)^\s*{daemon}Port=(\d+)", slurm_conf)
    return int(named.group(1)) if named else {"slurmd": 6818, "slurmctld": 6817}[daemon]


def _listening(table: Path) -> set[int]:
    if not table.exists():
        return set()
    rows = (line.split() for line in table.read_text().splitlines()[1:])
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTEN}


def judge(reading: Reading) -> Verdict:
    if reading.listening:
        return Verdict("healthy", f"{reading.daemon} listens on port {reading.port}")
    return Verdict("error", f"{reading.daemon} does not listen on port {reading.port}")

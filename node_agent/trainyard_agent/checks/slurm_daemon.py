"""This node's Slurm daemon listens: slurmd on workers, slurmctld on the controller.

That is read from the kernel's table, not by connecting. Of one that does not, the end of its log
says why.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from trainyard_agent.checks import Node, Verdict

EVERY_SECONDS, CONFIRM = 10.0, 2
_CONFIGURATIONS = (
    "/opt/slurm/etc/slurm.conf",
    "/var/spool/slurmd/conf-cache/slurm.conf",
    "/etc/slurm/slurm.conf",
)
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTEN = "0A"
_ERROR = re.compile(r"\b(?:error|fatal): (.*\S)")
# Of a log, so much of its end is read, and so much of that is quoted.
_READ_BYTES, _QUOTED_LINES, _QUOTED_CHARACTERS = 16384, 3, 400


@dataclass(frozen=True)
class Reading:
    daemon: str
    port: int
    listening: bool
    said: str = ""


def read(node: Node) -> Reading | None:
    if node.config.role == "login":
        return None
    daemon = "slurmctld" if node.config.role == "controller" else "slurmd"
    candidates = [node.config.slurm_conf, os.environ.get("SLURM_CONF"), *_CONFIGURATIONS]
    text = next(
        (with_includes(Path(path)) for path in candidates if path and Path(path).is_file()), ""
    )
    port = port_of(text, daemon, node.config.node_name)
    listening = any(port in _listening(Path(table)) for table in _TABLES)
    log = "" if listening else log_of(text, daemon, node.config.node_name)
    return Reading(daemon, port, listening, last_errors(Path(log)) if log else "")


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


def log_of(slurm_conf: str, daemon: str, node_name: str) -> str:
    """The file of the daemon's log, or '' if Slurm's configuration names none (syslog)."""
    named = re.search(rf"(?im)^\s*{daemon}LogFile=(\S+)", slurm_conf)
    if named is None:
        return ""
    return named.group(1).replace("%n", node_name).replace("%h", socket.gethostname())


def last_errors(path: Path) -> str:
    """The last errors in the end of a daemon's log, each once and without its time, or ''."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - _READ_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    errors = [found.group(1) for line in lines if (found := _ERROR.search(line))]
    newest = list(dict.fromkeys(reversed(errors)))[:_QUOTED_LINES]
    return "; ".join(reversed(newest))[:_QUOTED_CHARACTERS]


def _listening(table: Path) -> set[int]:
    if not table.exists():
        return set()
    rows = (line.split() for line in table.read_text().splitlines()[1:])
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTEN}


def judge(reading: Reading) -> Verdict:
    if reading.listening:
        return Verdict("healthy", f"{reading.daemon} listens on port {reading.port}")
    silent = f"{reading.daemon} does not listen on port {reading.port}"
    return Verdict("error", f"{silent}; its log says: {reading.said}" if reading.said else silent)

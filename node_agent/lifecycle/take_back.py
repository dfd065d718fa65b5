"""Removes from a node of a cluster that others made what its adoption installed there.

What is on the list (adopt.py) goes; what is not stays, and is named. It may run again, also after
it was cut off at any line: what it needs itself goes last.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

HOME = "/opt/trainyard"
CLAIM = f"{HOME}/adopted-by"
LIST = f"{HOME}/installed.json"
LOCK = f"{HOME}/lock"
RUN = "/var/run/trainyard"
#: Nodes that we set down have such a reason in Slurm (trainyard_agent/nodes/returns.py).
OURS = re.compile(r"^NodeName=(\S+) .*?\bReason=trainyard", re.MULTILINE)
LOCK_SECONDS = 20.0
STOP_SECONDS = 15.0
ASK_SECONDS = 20.0
#: In this order: what removes the rest is in the last of them.
LAST = ("installed.json", "take_back.py", "adopted-by")


def answer(state: str, reason: str = "", left: Iterable[str] = ()) -> int:
    print(json.dumps({"state": state, "reason": reason, "left": list(left)}))
    return 0


class Node:
    """`root` is '' on AWS and TRAINYARD_ROOT on the local cloud."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.root = environ.get("TRAINYARD_ROOT", "").rstrip("/")
        self.environ = environ

    def path(self, absolute: str) -> Path:
        return Path(self.root + absolute)

    @property
    def systemd(self) -> bool:
        return not self.root and os.path.isdir("/run/systemd/system")


def main(owner: str, environ: Mapping[str, str] = os.environ) -> int:
    node = Node(environ)
    claim = node.path(CLAIM)
    if not claim.exists():
        return answer("gone")
    if claim.read_text().strip() != owner:
        return answer("taken")
    with node.path(LOCK).open("w") as lock:
        if not locked(lock, LOCK_SECONDS):
            return answer("failed", "the agent is being installed at this moment; asked again soon")
        return answer("gone", left=taken_back(node))


def locked(lock: Any, seconds: float) -> bool:
    """Whether nobody installs anything (any more): adopt_node.sh holds the lock meanwhile."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        else:
            return True


def taken_back(node: Node) -> list[str]:
    """Sentences about what had to stay. Everything ours is gone then."""
    known = read_list(node)
    (stop_unit if node.systemd else stop_processes)(node)
    resume_nodes(node)
    left = list(remove_files(node, known.get("files") or []))
    for directory in known.get("directories") or []:
        if directory != HOME:
            shutil.rmtree(node.path(directory), ignore_errors=True)
    if node.systemd:
        quietly(["systemctl", "daemon-reload"])
        quietly(["systemctl", "reset-failed", "trainyard-agent.service"])
    home = node.path(HOME)
    for entry in [*(one for one in home.iterdir() if one.name not in LAST)]:
        remove(entry)
    for name in LAST:
        remove(home / name)
    home.rmdir()
    return left


def read_list(node: Node) -> Mapping[str, Any]:
    """Empty where the installation did not come so far: then nothing lies outside its directory."""
    try:
        found = json.loads(node.path(LIST).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def stop_unit(node: Node) -> None:
    quietly(["systemctl", "disable", "--now", "trainyard-agent.service"])
    quietly(["systemctl", "stop", "trainyard.slice"])


def stop_processes(node: Node) -> None:
    """Where systemd does not start the agent, a script does, which a file tells to end."""
    directory = node.path(RUN)
    if not directory.is_dir():
        return
    (directory / "agent.stop").touch()
    pids = [pid_in(directory / name) for name in ("supervise-agent.pid", "agent-process.pid")]
    running = [pid for pid in pids if pid is not None and is_agent(pid, node)]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in running:
            send(pid, number)
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            running = [pid for pid in running if is_agent(pid, node)]
            if not running:
                return
            time.sleep(0.05)


def pid_in(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def is_agent(pid: int, node: Node) -> bool:
    """The number may be another program's by now."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"trainyard" in words and (not node.root or node.root.encode() in words)


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def resume_nodes(node: Node) -> None:
    """On the controller: what we set down, nobody would take back any more.

    A node that is really gone is set down by Slurm itself again.
    """
    try:
        if node.path("/etc/trainyard/role").read_text().strip() != "controller":
            return
    except OSError:
        return
    for name in OURS.findall(slurm(node, "-o", "show", "nodes")):
        slurm(node, "update", f"nodename={name}", "state=resume")


def slurm(node: Node, *words: str) -> str:
    """What scontrol says; '' if it does not."""
    path = f"{node.path('/opt/slurm/bin')}:{node.environ.get('PATH') or os.defpath}"
    try:
        return subprocess.run(
            ["scontrol", *words],
            capture_output=True,
            text=True,
            timeout=ASK_SECONDS,
            check=True,
            env={**node.environ, "PATH": path},
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def remove_files(node: Node, files: Iterable[str]) -> Iterable[str]:
    """Single files, and directories beside them that are empty then."""
    for file in files:
        path = node.path(file)
        path.unlink(missing_ok=True)
        parent = path.parent
        if parent.name.endswith(".d") and parent.is_dir():
            if others := sorted(one.name for one in parent.iterdir()):
                yield f"{parent} stays, for it holds {', '.join(others)}, which is not ours"
            else:
                parent.rmdir()


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def quietly(argv: list[str], run: Callable[..., Any] = subprocess.run) -> None:
    """A unit that is not there is fine."""
    try:
        run(argv, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

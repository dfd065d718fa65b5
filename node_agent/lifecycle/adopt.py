"""Installs the agent on a node of a cluster that others made, and lists first what it will leave.

Slurm, mounts, users and host names are theirs, and are left alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import step_environment
import step_install
import step_network
from node import Node, StepFailed, say
from step_mounts import link_shared, shared_path

import lifecycle

HOME = "/opt/trainyard"
#: What a release removes: whole directories, and single files in directories that are not ours.
LIST = f"{HOME}/installed.json"
#: What removes it, beside the list, before there is anything outside of this directory.
TAKE_BACK = f"{HOME}/take_back.py"
DIRECTORIES = (
    HOME,
    "/etc/trainyard",
    "/var/lib/trainyard",
    "/var/log/trainyard",
    "/var/run/trainyard",
)
UNITS = "/etc/systemd/system"
FILES = (
    f"{UNITS}/trainyard-agent.service",
    f"{UNITS}/trainyard-agent.service.d/mounts.conf",
    f"{UNITS}/trainyard.slice",
)
#: Of the agent itself (trainyard_agent/host/boot.py).
BOOT = "/var/run/trainyard-boot"
RIGHTS = "import sys; from trainyard_agent.host.rights import main; sys.exit(main(*sys.argv[1:]))"
ASK_SECONDS = 60.0
START_SECONDS = 120.0


def listed(node: Node) -> None:
    """Write down what will be there, before it is.

    A list that an earlier try left stays: what is there now may be of that try.
    """
    if node.path(LIST).exists():
        return
    there = [path for path in (*DIRECTORIES[1:], *FILES) if node.path(path).exists()]
    if there:
        raise StepFailed(
            f"{', '.join(there)} is there already, and no adoption made it; remove it if nobody "
            "needs it, and adopt the cluster again"
        )
    node.write(TAKE_BACK, (node.bundle / "take_back.py").read_text())
    content = {"directories": DIRECTORIES, "files": [*FILES, BOOT]}
    node.write(LIST, json.dumps(content, indent=1) + "\n")


def shared_directory(node: Node) -> None:
    """The directory that all nodes share; nobody mounts anything for us. Raises StepFailed."""
    if node.local:
        link_shared(node)
        return
    path = Path(shared_path(node))
    mount = next((one for one in (path, *path.parents) if os.path.ismount(one)), Path("/"))
    if not path.is_dir() or mount == Path("/"):
        raise StepFailed(
            f"{path} is no directory on a mounted filesystem of this node; give another sharedDir, "
            "one that every node has mounted"
        )


def rights(node: Node) -> None:
    """Ask AWS for what the controller's agent will ask for. Raises StepFailed with what is denied.

    Only an attempt shows what a role may do: boundaries, policies of the organisation and of
    endpoints have a say, too.
    """
    if node.identity.role != "controller":
        return
    python = node.path("/etc/trainyard/agent-python").read_text().strip()
    library = [str(node.path(step_install.LIBRARY)), str(node.path(step_install.PACKAGES))]
    site = ["-S"] if node.path(step_install.PACKAGES).is_dir() else []
    environment = {**node.environ, "PYTHONPATH": os.pathsep.join(library)}
    given = [node.cluster[key] for key in ("region", "eventBus", "dataBucket", "runsPrefix")]
    done = subprocess.run(
        [python, *site, "-B", "-c", RIGHTS, *given],
        capture_output=True,
        text=True,
        timeout=ASK_SECONDS,
        env=environment,
        check=False,
    )
    if done.returncode:
        raise StepFailed(done.stdout.strip() or done.stderr.strip()[-500:])


def services(node: Node) -> None:
    """Start the agent; what it prints is the last of this log."""
    script = str(node.path("/opt/trainyard/bin/start-services"))
    done = subprocess.run(
        ["bash", script], capture_output=True, text=True, timeout=START_SECONDS, check=False
    )
    if done.returncode:
        words = (done.stdout + done.stderr).strip().splitlines()
        raise StepFailed(f"start-services ended with an error: {words[-1] if words else ''}")


STEPS: list[tuple[str, Callable[[Node], None]]] = [
    ("list of what is installed", listed),
    ("network", step_network.names),
    ("shared directory", shared_directory),
    ("job environment", step_environment.job_environment),
    ("agent", step_install.agent),
    ("cluster key", step_install.cluster_key),
    ("rights", rights),
    ("agent configuration", step_install.configuration),
    ("services", services),
]


def run(load: Callable[[], Node] = Node.load, steps: Iterable[Any] = STEPS) -> int:
    """0, or 1 after saying which step failed."""
    try:
        return lifecycle.run(load, list(steps))
    except subprocess.SubprocessError as error:
        say(f"FAILED: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(run())

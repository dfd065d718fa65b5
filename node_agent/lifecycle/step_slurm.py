"""Slurm's hooks on the controller: the epilog at a job's end, and short timeouts."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

from node import Node, say

from trainyard_agent.host import slurm_settings

CONFIGURATION_WAIT_SECONDS = 60.0
#: HyperPod rewrites the file while nodes come, and may not have seen our lines: we look again this
#: often, this much later.
LOOKS, LOOK_SECONDS = 3, 1.0
BEFORE_OURS = "/etc/trainyard/epilog-before-ours"
#: From this version on EpilogSlurmctld may stand several times, and every one is run.
SEVERAL_EPILOGS = (24, 5)


def slurm_conf(node: Node) -> str | None:
    """Path of slurm.conf, or None where this node has none.

    HyperPod's workers and login nodes take it from the controller.
    """
    path = Path(node.environ.get("SLURM_CONF") or node.path("/opt/slurm/etc/slurm.conf"))
    return str(path) if node.local or node.identity.role == "controller" else None


def hooks(node: Node) -> None:
    """Our settings in slurm.conf: on the controller, and on every node of the local cloud.

    There each node has a file of its own.
    """
    own = slurm_conf(node)
    if own is None:
        say("no slurm.conf of its own: this node takes it from the controller")
        return
    path = Path(own)
    if not await_configuration(path):
        say(
            f"WARNING: {path} did not come within {CONFIGURATION_WAIT_SECONDS:.0f} s: "
            "jobs come back more slowly without our settings"
        )
        return
    for look in range(LOOKS):
        if not apply(node, path):
            break
        node.write("/etc/trainyard/slurm-changed", "")
        if not node.local and look + 1 < LOOKS:
            time.sleep(LOOK_SECONDS)


def apply(node: Node, path: Path) -> bool:
    """Put our settings in force if they are not; whether they were missing."""
    text = slurm_settings.text_of(path)
    keep_epilog(node, text)
    epilog = our_epilog(node) if node.identity.role == "controller" else None
    if not slurm_settings.keep(path, node.cluster.get("expectedWorkers") or 0, epilog):
        say("slurm.conf has the hooks already")
        return False
    own = path.with_name(slurm_settings.NAME)
    say(f"{path} includes {own}: {', '.join(own.read_text().split())}")
    return True


def our_epilog(node: Node) -> str:
    return str(node.path("/opt/trainyard/bin/slurm-job-end"))


def keep_epilog(node: Node, text: str) -> None:
    """Ours calls an EpilogSlurmctld that the cluster had before.

    A Slurm that runs several of them calls both itself.
    """
    given = slurm_settings.found_in(text).get("epilogslurmctld")
    foreign = given not in (None, "", our_epilog(node))
    if foreign and node.identity.role == "controller" and slurm_version(node) < SEVERAL_EPILOGS:
        node.write(BEFORE_OURS, f"{given}\n")


def slurm_version(node: Node) -> tuple[int, ...]:
    """(24, 11) of 'slurm 24.11.5'; (0,) if Slurm does not say."""
    path = f"{node.environ.get('PATH') or os.defpath}:/opt/slurm/bin"
    try:
        answer = subprocess.run(
            ["scontrol", "--version"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
            env={"PATH": path},
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return (0,)
    found = re.search(r"(\d+)\.(\d+)", answer)
    return (int(found[1]), int(found[2])) if found else (0,)


def await_configuration(path: Path) -> bool:
    """Whether slurm.conf came.

    HyperPod's set-up may still be writing the file when the lifecycle scripts begin.
    """
    deadline = time.monotonic() + CONFIGURATION_WAIT_SECONDS
    while True:
        text = slurm_settings.text_of(path) if path.exists() else ""
        if slurm_settings.complete(text):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)

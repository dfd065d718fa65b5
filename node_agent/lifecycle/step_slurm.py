"""Slurm's hooks on the controller: the end-of-job epilog, and timeouts that let a job come back in seconds."""

from __future__ import annotations

import os
import time
from pathlib import Path

from node import Node, say

#: Measured with Slurm 22.05: with these and the epilog a new job runs 0.05 s after the lost node was set down, with Slurm's defaults 6 to 120 s.
TIMEOUTS = {
    "MessageTimeout": "2",
    "TCPTimeout": "1",
    # A slurmctld that hangs for longer than this while a job ends costs its nodes: Slurm drains them ("Kill task failed").
    "UnkillableStepTimeout": "60",
    "BatchStartTimeout": "10",
    "CompleteWait": "0",
}
#: Without any Epilog a slurmd whose job processes are gone already tells slurmctld so only in its answer to "end the job", and that
#: answer is read only when the dead node was given up: 3.3 seconds in which the survivors stay COMPLETING. With one it tells at once.
EPILOG = "/bin/true"
#: Slurm looks at new batch jobs after up to 3 seconds unless told otherwise.
PROMPTLY = "batch_sched_delay=0"
CONFIGURATION_WAIT_SECONDS = 60.0
#: Measured on few nodes; on a large or busy cluster so short times take healthy nodes for silent ones.
LARGE_CLUSTER_NODES = 16
LARGE_CLUSTER = {"MessageTimeout": "10", "TCPTimeout": "5"}
#: HyperPod rewrites the file while nodes come, and may not have seen our lines: so often, and so much later, we look again.
LOOKS, LOOK_SECONDS = 3, 1.0
BEFORE_OURS = "/etc/trainyard/epilog-before-ours"


def slurm_conf(node: Node) -> str | None:
    """Path of slurm.conf; None where this node has none of its own: HyperPod's workers and login nodes take it from the controller."""
    path = Path(node.environ.get("SLURM_CONF") or node.path("/opt/slurm/etc/slurm.conf"))
    if node.local:
        return str(path)
    return str(path) if node.identity.role == "controller" and path.exists() else None


def hooks(node: Node) -> None:
    """Our settings in slurm.conf: on the controller, and on every node of the local cloud, where each has a file of its own."""
    if node.identity.role != "controller" and not node.local:
        say("no slurm.conf of its own: this node takes it from the controller")
        return
    path = Path(node.environ.get("SLURM_CONF") or node.path("/opt/slurm/etc/slurm.conf"))
    if not await_configuration(path):
        say(f"WARNING: {path} did not come within {CONFIGURATION_WAIT_SECONDS:.0f} s: jobs come back more slowly without our settings")
        return
    for look in range(LOOKS):
        if not apply(node, path):
            break
        node.write("/etc/trainyard/slurm-changed", "")
        if not node.local and look + 1 < LOOKS:
            time.sleep(LOOK_SECONDS)


def apply(node: Node, path: Path) -> bool:
    """Write our settings if they are not there; whether they were missing."""
    before = path.read_text()
    settings = wanted(node, before)
    after = with_settings(before, settings)
    if after == before:
        say("slurm.conf has the hooks already")
        return False
    keep_epilog(node, before)
    owner = path.stat()
    part = path.with_name(path.name + ".part")
    part.write_text(after)
    os.chmod(part, owner.st_mode & 0o777)
    os.chown(part, owner.st_uid, owner.st_gid)
    part.replace(path)
    say(f"{path}: {', '.join(f'{key}={value}' for key, value in settings.items())}")
    return True


def wanted(node: Node, text: str) -> dict[str, str]:
    settings = additions(text) | TIMEOUTS
    if (node.cluster.get("expectedWorkers") or 0) > LARGE_CLUSTER_NODES:
        settings |= LARGE_CLUSTER
    if node.identity.role == "controller":
        settings["EpilogSlurmctld"] = our_epilog(node)
    return settings


def our_epilog(node: Node) -> str:
    return str(node.path("/opt/trainyard/bin/slurm-job-end"))


def keep_epilog(node: Node, text: str) -> None:
    """An EpilogSlurmctld that the cluster had before is remembered, and called by ours."""
    given = found_in(text).get("epilogslurmctld")
    if node.identity.role == "controller" and given and given != our_epilog(node):
        node.write(BEFORE_OURS, given + "\n")


def await_configuration(path: Path) -> bool:
    """HyperPod's own set-up may still be writing the file when the lifecycle scripts begin. Whether it came."""
    deadline = time.monotonic() + CONFIGURATION_WAIT_SECONDS
    while True:
        text = path.read_text() if path.exists() else ""
        if "SlurmctldHost" in text or "ControlMachine" in text:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)


def found_in(text: str) -> dict[str, str]:
    """Settings by their names in lower case."""
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition("=") for line in text.splitlines())}


def additions(text: str) -> dict[str, str]:
    """What the cluster may have already, and then keeps."""
    found = found_in(text)
    settings = {} if "epilog" in found else {"Epilog": EPILOG}
    scheduler = found.get("schedulerparameters", "")
    if PROMPTLY.partition("=")[0] not in scheduler:
        settings["SchedulerParameters"] = ",".join(filter(None, [scheduler, PROMPTLY]))
    return settings


def with_settings(text: str, settings: dict[str, str]) -> str:
    """`text` with each key set exactly once (Slurm complains about a key given twice); all other lines stay as they are."""
    names = {key.lower() for key in settings}
    kept = [line for line in text.splitlines() if line.split("=", 1)[0].strip().lower() not in names or "=" not in line]
    return "\n".join([*kept, *(f"{key}={value}" for key, value in settings.items())]) + "\n"

"""Slurm's hooks on the controller: the end-of-job epilog, and timeouts that let a job come back in seconds."""

from __future__ import annotations

import os
import time
from pathlib import Path

from node import Node, StepFailed, say

#: Measured with Slurm 22.05: with these and the epilog a new job runs 0.05 s after the lost node was set down, with Slurm's defaults 6 to 120 s.
TIMEOUTS = {
    "MessageTimeout": "2",
    "TCPTimeout": "1",
    "KillWait": "2",
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


def slurm_conf(node: Node) -> str | None:
    """Path of slurm.conf; None where this node has none (HyperPod's workers fetch it from the controller)."""
    path = Path(node.environ.get("SLURM_CONF") or node.path("/opt/slurm/etc/slurm.conf"))
    return str(path) if node.local or path.exists() else None


def hooks(node: Node) -> None:
    if node.identity.role != "controller" and slurm_conf(node) is None:
        say("no slurm.conf here: this node takes it from the controller")
        return
    path = Path(node.environ.get("SLURM_CONF") or node.path("/opt/slurm/etc/slurm.conf"))
    before = await_configuration(path)
    settings = additions(before) | TIMEOUTS
    if node.identity.role == "controller":
        settings["EpilogSlurmctld"] = str(node.path("/opt/trainyard/bin/slurm-job-end"))
    after = with_settings(before, settings)
    if after == before:
        say("slurm.conf has the hooks already")
        return
    mode = path.stat().st_mode & 0o777
    part = path.with_name(path.name + ".part")
    part.write_text(after)
    os.chmod(part, mode)
    part.replace(path)
    node.write("/etc/trainyard/slurm-changed", "")
    say(f"{path}: {', '.join(f'{key}={value}' for key, value in settings.items())}")


def await_configuration(path: Path) -> str:
    """HyperPod's own set-up may still be writing the file when the lifecycle scripts begin."""
    deadline = time.monotonic() + CONFIGURATION_WAIT_SECONDS
    while True:
        text = path.read_text() if path.exists() else ""
        if "SlurmctldHost" in text or "ControlMachine" in text:
            return text
        if time.monotonic() > deadline:
            raise StepFailed(
                f"{path} did not appear within {CONFIGURATION_WAIT_SECONDS:.0f} s; does the cluster have a Slurm configuration?"
            )
        time.sleep(0.5)


def additions(text: str) -> dict[str, str]:
    """What the cluster may have already, and then keeps."""
    found = {name.strip().lower(): value.strip() for name, _, value in (line.partition("=") for line in text.splitlines())}
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

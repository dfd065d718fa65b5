"""Slurm's hooks on the controller: the end-of-job epilog, and timeouts that let a job come back in seconds."""

from __future__ import annotations

import os
import time
from pathlib import Path

from node import Node, StepFailed, say

#: Measured: with these a job runs again 0.1 s (lost worker) or 2.7 s (lost batch host) after its node died, with Slurm's defaults 6 to 120 s.
TIMEOUTS = {
    "MessageTimeout": "2",
    "TCPTimeout": "1",
    "KillWait": "2",
    "UnkillableStepTimeout": "10",
    "BatchStartTimeout": "10",
    "CompleteWait": "0",
}
#: Without any Epilog a slurmd whose job processes are gone already tells slurmctld so only in its answer to "end the job", and that
#: answer is read only when the dead node was given up: 2 to 4 seconds in which the survivors stay COMPLETING. With one it tells at once.
EPILOG = "/bin/true"
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
    settings = ({} if has_setting(before, "Epilog") else {"Epilog": EPILOG}) | TIMEOUTS
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


def has_setting(text: str, key: str) -> bool:
    """Whether `text` sets the key."""
    return any(line.split("=", 1)[0].strip().lower() == key.lower() for line in text.splitlines() if "=" in line)


def with_settings(text: str, settings: dict[str, str]) -> str:
    """`text` with each key set exactly once (Slurm complains about a key given twice); all other lines stay as they are."""
    names = {key.lower() for key in settings}
    kept = [line for line in text.splitlines() if line.split("=", 1)[0].strip().lower() not in names or "=" not in line]
    return "\n".join([*kept, *(f"{key}={value}" for key, value in settings.items())]) + "\n"

"""Our settings of Slurm, in a file of our own that slurm.conf includes.

HyperPod owns slurm.conf and rewrites it whenever nodes come. We only append one line to it, in one
write. If another program rewrites the file at that moment, our line is lost and we append it again;
we never remove a line of others. If a setting is there twice, Slurm takes the later one. Standard
library only: the lifecycle scripts use this file before the agent's packages are there.
"""

from __future__ import annotations

import os
from pathlib import Path

from trainyard_agent.host.atomic_file import replace_file

#: Without a directory: Slurm looks beside slurm.conf, and hands the file to nodes that take their
#: configuration from the controller.
NAME = "trainyard.conf"
INCLUDE = f"Include {NAME}"
#: Measured with Slurm 22.05: with these and the epilog a new job runs 0.05 s after the lost node
#: was set down, with Slurm's defaults 6 to 120 s.
TIMEOUTS = {
    "MessageTimeout": "2",
    "TCPTimeout": "1",
    # A slurmctld that hangs for longer than this while a job ends costs its nodes: Slurm drains
    # them ("Kill task failed").
    "UnkillableStepTimeout": "60",
    "BatchStartTimeout": "10",
    "CompleteWait": "0",
}
#: Without any Epilog a slurmd whose job processes are gone already tells slurmctld so only in its
#: answer to "end the job". That answer is read only when the dead node was given up: 3.3 seconds in
#: which the survivors stay COMPLETING. With one it tells at once.
EPILOG = "/bin/true"
#: Slurm looks at new batch jobs after up to 3 seconds unless told otherwise.
PROMPTLY = "batch_sched_delay=0"
#: With more workers than this Slurm's timeouts are longer. The short ones were measured on few
#: nodes; on a large or busy cluster they take healthy nodes for silent ones.
LARGE_CLUSTER_NODES = 16
LARGE_CLUSTER = {"MessageTimeout": "10", "TCPTimeout": "5"}


def text_of(path: Path) -> str:
    """A configuration file whatever bytes it holds. Raises OSError.

    People's comments are in any encoding, and come back as they were.
    """
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def complete(text: str) -> bool:
    """Whether this is a whole slurm.conf, and not one that a program is still writing."""
    return "SlurmctldHost" in text or "ControlMachine" in text


def found_in(text: str) -> dict[str, str]:
    """Settings by their names in lower case."""
    return {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition("=") for line in text.splitlines())
    }


def wanted(text: str, workers: int, epilog: str | None) -> dict[str, str]:
    """Our settings beside a slurm.conf that says `text`.

    `epilog`: the controller's hook at a job's end.
    """
    settings = additions(text) | TIMEOUTS
    if workers > LARGE_CLUSTER_NODES:
        settings |= LARGE_CLUSTER
    return settings | ({"EpilogSlurmctld": epilog} if epilog else {})


def additions(text: str) -> dict[str, str]:
    """Settings that the cluster keeps if it has them already."""
    found = found_in(text)
    settings = {} if "epilog" in found else {"Epilog": EPILOG}
    scheduler = found.get("schedulerparameters", "")
    if PROMPTLY.partition("=")[0] not in scheduler:
        settings["SchedulerParameters"] = ",".join(filter(None, [scheduler, PROMPTLY]))
    return settings


def keep(conf: Path, workers: int, epilog: str | None) -> bool:
    """Put our settings in force wherever they are not; whether anything was written.

    Raises OSError.
    """
    text = text_of(conf)
    settings = wanted(text, workers, epilog)
    written = _write_own(conf, "".join(f"{key}={value}\n" for key, value in settings.items()))
    if not included(text, settings):
        _append(conf, ("" if text.endswith("\n") or not text else "\n") + INCLUDE + "\n")
        written = True
    return written


def included(text: str, settings: dict[str, str]) -> bool:
    """Whether our file is included, after every other line that sets one of the same."""
    lines = text.splitlines()
    names = {key.lower() for key in settings}
    last = max((number for number, line in enumerate(lines) if line.strip() == INCLUDE), default=-1)
    return last >= 0 and not names & found_in("\n".join(lines[last + 1 :])).keys()


def _write_own(conf: Path, text: str) -> bool:
    path = conf.with_name(NAME)
    if path.exists() and text_of(path) == text:
        return False
    body = text.encode("utf-8", errors="surrogateescape")
    replace_file(path, body, mode=0o666, like=conf.stat(), durable=False)
    return True


def _append(conf: Path, line: str) -> None:
    """One write at the end of the file as it is then: no other writer can lose a line by it."""
    handle = os.open(conf, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)

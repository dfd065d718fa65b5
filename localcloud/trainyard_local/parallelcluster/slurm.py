"""Slurm of a cluster whose nodes come for jobs and go when they are idle, as ParallelCluster has.

slurmctld calls two programs. They leave the nodes' names in a directory, where the cluster finds
them.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainyard_local.nodes.shared_mount import HOSTS
from trainyard_local.parallelcluster.configuration import Configuration, Queue
from trainyard_local.slurm import loopback
from trainyard_local.slurm.cluster import SETTINGS, SlurmCluster, lines_of, machine_size

#: ParallelCluster's slurm.conf, where it says other things than a local cluster's otherwise does.
OWN: dict[str, str | int] = {
    "SchedulerParameters": "nohold_on_prolog_fail",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_CPU",
    "ReturnToService": 1,
    "SlurmctldTimeout": 300,
    "SlurmdTimeout": 180,
    "UnkillableStepTimeout": 180,
    "BatchStartTimeout": 180,
    "KillWait": 30,
    "MessageTimeout": 60,
    "ResumeRate": 0,
    "SuspendRate": 0,
    "PrivateData": "cloud",
    "TreeWidth": 65533,
    "Epilog": "/bin/true",
    "EnforcePartLimits": "ALL",
    "DebugFlags": "NO_CONF_HASH,Power",
}
STATIC_WEIGHT, DYNAMIC_WEIGHT = 1, 1000
OURS = "/opt/trainyard/"
RESUME, SUSPEND = "resume", "suspend"
PROGRAM = """\
#!/bin/bash
PATH=/usr/bin:/bin
part=$(mktemp {directory}/.XXXXXXXX) && printf '%s\\n' "$1" >"$part" &&
  mv "$part" "{directory}/$(date +%s.%N).{word}"
"""


@dataclass(frozen=True)
class Request:
    """Slurm wants these nodes powered up or down; `names` in its own short form."""

    word: str
    names: str


@dataclass
class PowerSavingSlurm(SlurmCluster):
    """`ports` are the nodes' slurmds', by name."""

    ports: dict[str, int] = field(default_factory=dict)
    #: Settings that name a program of ours.
    programs: dict[str, str] = field(default_factory=dict)

    @property
    def power(self) -> Path:
        return self.home / "power"

    def write_programs(self) -> None:
        self.power.mkdir(parents=True, exist_ok=True)
        for word in (RESUME, SUSPEND):
            program = self.home / f"slurm_{word}"
            program.write_text(PROGRAM.format(directory=self.power, word=word))
            program.chmod(0o755)

    def requests(self) -> list[Request]:
        """What Slurm asked for since the last time, the oldest first."""
        found = []
        for path in sorted(self.power.glob("[0-9]*")):
            found.append(Request(path.suffix.lstrip("."), path.read_text().strip()))
            path.unlink()
        return found

    def write(self, configuration: Configuration, power: Mapping[str, int]) -> None:
        """The part of slurm.conf that every node includes. `power`: times of power saving."""
        static = [name for queue in configuration.queues for name in queue.static()]
        settings: dict[str, str | int] = {
            "SlurmctldParameters": "idle_on_node_suspend,node_reg_mem_percent=75,"
            f"power_save_min_interval={power['interval']}",
            "ResumeProgram": str(self.home / "slurm_resume"),
            "SuspendProgram": str(self.home / "slurm_suspend"),
            "ResumeFailProgram": str(self.home / "slurm_suspend"),
            "ResumeTimeout": power["resume"],
            "SuspendTime": power["idle"],
            "SuspendTimeout": power["suspend"],
            **({"SuspendExcNodes": ",".join(static)} if static else {}),
        }
        lines = lines_of(settings).splitlines()
        for number, queue in enumerate(configuration.queues):
            lines += self._queue(queue, default=number == 0)
        lines += lines_of(configuration.slurm_settings).splitlines()
        given = configuration.slurm_settings
        self.programs = {k: path for k, path in given.items() if path.startswith(OURS)}
        self.replace_nodes_file(lines)
        self.write_hosts()

    @property
    def hosts_file(self) -> Path:
        return self.home / "slurm" / "etc-hosts"

    def write_hosts(self) -> None:
        """Every node's name, as ParallelCluster's private zone has it.

        clustermgtd gives a node that lost its instance its own name for an address. On AWS that
        still means the dead instance, until the next one is there. If no server knew the name,
        Debian's slurmctld would hold its locks for ten seconds and try again and again. Programs
        hold this file open by its inode: it only grows.
        """
        known = self.hosts_file.read_text() if self.hosts_file.exists() else ""
        added = "" if known else Path(HOSTS).read_text().rstrip("\n") + "\n"
        lines = (f"{loopback.ADDRESS} {name}\n" for name in self.ports)
        added += "".join(line for line in lines if line not in known)
        with self.hosts_file.open("a") as file:
            file.write(added)

    def _queue(self, queue: Queue, *, default: bool) -> list[str]:
        cpus, memory = machine_size()
        names = [*queue.static(), *queue.dynamic()]
        lines = [
            f"NodeName={name} NodeHostname=localhost NodeAddr={loopback.ADDRESS} "
            f"Port={self.ports[name]} CPUs={cpus} RealMemory={memory} State=CLOUD "
            f"Weight={STATIC_WEIGHT if name in queue.static() else DYNAMIC_WEIGHT}"
            for name in names
        ]
        custom = "".join(f" {key}={value}" for key, value in queue.settings.items())
        return [
            *lines,
            f"PartitionName={queue.name} Nodes={','.join(names)} MaxTime=INFINITE State=UP"
            f"{' Default=YES' if default else ''}{custom}",
        ]

    def configuration(self, root: Path) -> str:
        daemons = self.daemons(root)
        daemons["AuthInfo"] = f"socket={self.munge_socket},cred_expire=70"
        # Programs of ours lie below the node's root here.
        ours = {key: f"{root}{path}" for key, path in self.programs.items()}
        return lines_of(daemons | SETTINGS | OWN) + f"Include {self.nodes_file}\n" + lines_of(ours)


def nodes_of(answer: str) -> dict[str, dict[str, str]]:
    """`scontrol -o show nodes`: the fields of each node that are read here, by its name."""
    found: dict[str, dict[str, str]] = {}
    for line in answer.splitlines():
        words, _, reason = line.partition(" Reason=")
        fields = dict(word.split("=", 1) for word in words.split() if "=" in word)
        if "NodeName" in fields:
            found[fields["NodeName"]] = {**fields, "Reason": reason.partition(" [")[0].strip()}
    return found


def flags(node: Mapping[str, Any]) -> set[str]:
    """The words of its state: IDLE, CLOUD, POWERED_DOWN, ..."""
    return {word.rstrip("*~#!%$@^-") for word in str(node["State"]).split("+")}


def await_daemon(slurm: SlurmCluster, conf: Path, seconds: float = 25.0) -> None:
    """Until slurmctld answers. Raises RuntimeError."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if "UP" in slurm.scontrol(conf, "ping"):
                return
        except subprocess.SubprocessError:
            pass  # it does not answer yet
        time.sleep(0.1)
    log = conf.parents[3] / "var/log/slurm/slurmctld.log"
    raise RuntimeError(f"slurmctld did not start: {log.read_text(errors='replace')[-500:]}")

"""What HyperPod itself does to Slurm on machine nodes: it gives keys and writes slurm.conf.

Where the image sets up Slurm's daemons, it starts them, too.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainyard_local.hyperpod.state import Cluster
from trainyard_local.machines.node import MachineNode

CONFIGURATION = "opt/slurm/etc/slurm.conf"
PORT = 6817
#: HyperPod's own agent needs a moment after the boot before it gives a node its key and the
#: controller its slurm.conf.
LATE_SECONDS = 2.0
SETTINGS: dict[str, str | int] = {
    "SlurmUser": "slurm",
    "AuthType": "auth/munge",
    "CredType": "cred/munge",
    "SlurmctldPort": PORT,
    "SlurmctldParameters": "enable_configless",
    "SlurmctldPidFile": "/run/slurmctld/slurmctld.pid",
    "SlurmctldLogFile": "/var/log/slurm/slurmctld.log",
    "SlurmdLogFile": "/var/log/slurm/slurmd.log",
    "SlurmdPidFile": "/run/slurmd.pid",
    "StateSaveLocation": "/var/spool/slurmctld",
    "SlurmdSpoolDir": "/var/spool/slurmd",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "AccountingStorageType": "accounting_storage/none",
    "MpiDefault": "none",
    "MailProg": "/bin/true",
    "SchedulerType": "sched/backfill",
    "SchedulerParameters": "permit_job_expansion",
    "SelectType": "select/cons_tres",
    # Slurm 22.05 starts without any node only where nodes may come later.
    "MaxNodeCount": 200,
    "ReturnToService": 1,
    "MinJobAge": 300,
}


class MachineSlurm:
    """Slurm of one cluster of machines.

    slurm.conf lies on the controller's disk only. Workers and login nodes fetch it from there.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._key = secrets.token_bytes(128)
        self._lock = threading.Lock()
        self.nodes: list[Any] = []  # of the process kind: ports to give back
        self.controller_port = PORT

    # -- what clusters of both kinds ask ----------------------------------------------------------

    def scontrol(self, configuration: Path, *arguments: str) -> str:
        """Run scontrol on the controller; raises subprocess.SubprocessError or OSError."""
        return self._controller().run("/opt/slurm/bin/scontrol", *arguments)

    def nodes_changed(self) -> None:
        """Write the lines of the nodes that are there now."""
        with self._lock:
            self._write_configuration()
        self._tell_controller()

    # -- HyperPod's agent -------------------------------------------------------------------------

    def node_came(self, node: MachineNode) -> None:
        """Give a node that has booted its key, and the controller the line of the node."""
        self._give_key(node)
        self.nodes_changed()

    def node_came_late(self, node: MachineNode) -> None:
        """The same while an OnCreate script runs already: it does not wait for HyperPod's agent."""

        def work() -> None:
            self._cluster.closing.wait(LATE_SECONDS)
            with contextlib.suppress(OSError):  # the node, or the controller, is off again
                self.node_came(node)

        self._cluster.in_background(work)

    def set_up(self, node: MachineNode) -> None:
        """The image's whole set-up, after which OnInitComplete runs.

        File systems, munge, and the Slurm daemon of the node's role.
        """
        for storage in self._cluster.groups[node.group].get("InstanceStorageConfigs") or []:
            if lustre := storage.get("FsxLustreConfig"):
                _mount(node, lustre)
        node.run("systemctl", "enable", "--now", "munge")
        if self._cluster.role(node.group) == "Controller":
            node.run("systemctl", "enable", "--now", "slurmctld")
        else:
            unit = node.root / "etc/systemd/system/slurmd.service"
            unit.write_text(
                unit.read_text().replace(
                    "$SLURMD_OPTIONS", f"--conf-server {self._controller().address}:{PORT}"
                )
            )
            node.run("systemctl", "daemon-reload")
            node.run("systemctl", "enable", "--now", "slurmd")

    def _give_key(self, node: MachineNode) -> None:
        directory = node.root / "etc/munge"
        owner = directory.stat()
        key = directory / "munge.key"
        with contextlib.suppress(FileNotFoundError):
            key.unlink()
        handle = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
        with os.fdopen(handle, "wb") as file:
            file.write(self._key)
        os.chown(key, owner.st_uid, owner.st_gid)

    def _write_configuration(self) -> None:
        """Write the file anew, in place.

        What others wrote into it may be lost whenever nodes come or go (Developer Guide).
        """
        path = self._controller().root / CONFIGURATION
        owner = path.parent.stat()
        path.write_text(self._fresh() + self._node_lines())
        os.chown(path, owner.st_uid, owner.st_gid)

    def _fresh(self) -> str:
        controller = self._controller()
        first = {
            "ClusterName": self._cluster.id,
            "SlurmctldHost": f"{controller.name}({controller.address})",
        }
        return "".join(f"{key}={value}\n" for key, value in {**first, **SETTINGS}.items())

    def _node_lines(self) -> str:
        """Login nodes too; partition `dev` over all of them, and the groups' own."""
        there = [
            node
            for node in self._cluster.members()
            if node.powered and self._cluster.role(node.group) != "Controller"
        ]
        cpus = os.cpu_count() or 1
        lines = [
            f"NodeName={node.name} NodeAddr={node.address} CPUs={cpus} State=CLOUD"
            for node in there
        ]
        partitions: dict[str, list[str]] = {}
        for node in there:
            if self._cluster.role(node.group) == "Compute":
                partitions.setdefault(self._cluster.partition(node.group), []).append(node.name)
        lines.append("PartitionName=dev Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
        lines += [
            f"PartitionName={name} Nodes={','.join(members)} MaxTime=INFINITE State=UP "
            "OverSubscribe=EXCLUSIVE"
            for name, members in partitions.items()
            if name != "dev"
        ]
        return "".join(f"{line}\n" for line in lines)

    def _tell_controller(self) -> None:
        """Slurm 22.05 learns of new nodes only when slurmctld starts.

        Its configless nodes learn of them only by a reconfiguration.
        """
        controller = self._controller()
        with contextlib.suppress(subprocess.SubprocessError, OSError):
            controller.run("systemctl", "is-enabled", "slurmctld")
            controller.run("systemctl", "restart", "slurmctld")
            self._reconfigure()

    def _reconfigure(self, seconds: float = 15.0) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                self._controller().run("/opt/slurm/bin/scontrol", "reconfigure")
                return
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _controller(self) -> MachineNode:
        controller = self._cluster.controller
        if not isinstance(controller, MachineNode) or not controller.init:
            raise OSError("the controller is off")
        return controller


def _mount(node: MachineNode, lustre: Mapping[str, Any], tries: int = 10) -> None:
    target = str(lustre.get("MountPath") or "/fsx")
    node.run("mkdir", "-p", target)
    for again in reversed(range(tries)):
        try:
            node.run(
                "mount",
                "-t",
                "lustre",
                "-o",
                "noatime,flock",
                f"{lustre['DnsName']}@tcp:/{lustre['MountName']}",
                target,
            )
            return
        except subprocess.CalledProcessError:
            if not again:
                raise
            time.sleep(1.0)  # the node's resolver is late

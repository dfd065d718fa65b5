"""Instances of a cluster: a head node, nodes of queues and login nodes, as ParallelCluster's image.

The image has Slurm, AWS's command line and the files by which a node knows its cluster.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainyard_local.nodes.node import AWS_PROGRAM, Node
from trainyard_local.slurm.cluster import SlurmCluster

#: A daemon of the image's: started again whenever it ends, as its unit says.
DAEMON = 'while :; do "$@" >>"$0" 2>&1 </dev/null; sleep 1; done'
#: slurmctld writes its state and ends within this.
RESTART_SECONDS = 30.0
_NODE_TYPES = {"Controller": "HeadNode", "Compute": "ComputeFleet", "Login": "LoginNode"}


@dataclass
class QueueNode(Node):
    """An instance; `label` is its name in Slurm where it is of a queue.

    Its status is in EC2's words.
    """

    status: str = "pending"
    role: str = "Compute"
    spot: bool = False
    #: EC2 takes it back then, as its metadata say.
    interrupted_at: str = ""
    #: Its boot came to its end.
    booted: bool = False
    #: Slurm powered it up by its ResumeProgram.
    powered_up: bool = False

    @property
    def name(self) -> str:
        return self.label if self.role == "Compute" else super().name

    @property
    def host_name(self) -> str:
        """What EC2 calls it."""
        return "ip-" + self.address.replace(".", "-")

    def lay_out_image(
        self,
        slurm: SlurmCluster,
        shared: Path,
        aws: Mapping[str, str],
        stack_arn: str,
        head_address: str,
    ) -> None:
        """A fresh disk, before any script of ours runs."""
        self.lay_out(slurm, shared, aws)
        bin_directory = self.root / "opt/slurm/bin"
        bin_directory.mkdir(parents=True, exist_ok=True)
        self._program("usr/local/bin/aws", AWS_PROGRAM)
        self.environment["PATH"] = f"{self.root}/usr/local/bin:{self.environment['PATH']}"
        kind, cluster = _NODE_TYPES[self.role], stack_arn.split("/")[1]
        config = {"stack_name": cluster, "cfn_region": aws["AWS_REGION"], "cfn_node_type": kind}
        if self.role == "Compute":
            config |= {
                "cfn_head_node_private_ip": head_address,
                "cfn_scheduler_queue_name": self.group,
            }
            self._file("etc/parallelcluster/slurm_plugin/slurm_nodename", self.label)
        lines = "".join(f"{key}={value}\n" for key, value in config.items())
        self._file("etc/parallelcluster/cfnconfig", lines)
        facts = {"node_type": kind, "head_node_private_ip": head_address, "stack_arn": stack_arn}
        self._file("etc/chef/dna.json", json.dumps({"cluster": facts}))

    def start_daemon(self, name: str, *argv: str) -> None:
        """A daemon of the image's own."""
        log = self.root / f"var/log/slurm/{name}.out"
        self.powered = True
        self.start(["bash", "-c", DAEMON, str(log), *argv])

    def start_services(self, timeout_seconds: float = 30.0) -> None:
        """What systemd starts at a boot: Slurm's daemon, and what our script set up."""
        self.start_slurm()
        super().start_services(timeout_seconds)

    def start_slurm(self) -> None:
        running = {process.name for process in self.processes()}
        if self.role == "Controller" and "slurmctld" not in running:
            self.start_daemon("slurmctld", "slurmctld", "-D")
        if self.role == "Compute" and "slurmd" not in running:
            # -b: it booted now, and not when this machine did. Slurm asks that of nodes which it
            # powered up; of others it calls it an unexpected reboot.
            booted = ["-b"] if self.powered_up else []
            self.start_daemon("slurmd", "slurmd", "-D", *booted, "-N", self.label)

    def restart_controller(self) -> None:
        """slurmctld ends, with its state on disk, and the image's unit starts it anew."""
        running = {one.pid for one in self.processes() if one.name == "slurmctld"}
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + RESTART_SECONDS
        while running & {one.pid for one in self.processes()} and time.monotonic() < deadline:
            time.sleep(0.05)

    def _file(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def _program(self, path: str, text: str) -> None:
        self._file(path, text)
        (self.root / path).chmod(0o755)

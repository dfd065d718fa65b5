"""Sets up Slurm for a local cluster as HyperPod's image does on AWS.

That is addresses, ports, munge and slurm.conf.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainyard_local.slurm import loopback

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")
CGROUPS = "/sys/fs/cgroup"
#: Of slurm.conf, the same in every cluster.
SETTINGS: dict[str, str | int] = {
    "LogTimeFormat": "iso8601_ms",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "AccountingStorageType": "accounting_storage/none",
    "JobCompType": "jobcomp/none",
    "SwitchType": "switch/none",
    "MpiDefault": "none",
    "MailProg": "/bin/true",
    "SchedulerType": "sched/backfill",
    "SchedulerParameters": "batch_sched_delay=0,sched_interval=1,bf_interval=1",
    "SelectType": "select/linear",
    "SlurmdParameters": "config_overrides",
    # 1, as on HyperPod: a node that was only unresponsive comes back by itself, one that was set
    # down does not.
    "ReturnToService": 1,
    "SlurmctldTimeout": 10,
    "SlurmdTimeout": 10,
    "MinJobAge": 300,
    "InactiveLimit": 0,
    "Waittime": 0,
    # The files differ between nodes by their paths, which is meant.
    "DebugFlags": "NO_CONF_HASH",
}


class SlurmMissing(RuntimeError):
    """Slurm or munge is not installed on this machine, or cannot run here."""


def node_name(address: str) -> str:
    """HyperPod's Slurm node name of an address."""
    return "ip-" + address.replace(".", "-")


def require_programs() -> None:
    missing = [program for program in PROGRAMS if shutil.which(program, path=SEARCH_PATH) is None]
    if missing:
        raise SlurmMissing(
            f"{', '.join(missing)} not found; "
            "install them with: apt-get install slurmctld slurmd slurm-client munge"
        )
    if not os.path.ismount(CGROUPS):
        raise SlurmMissing(
            f"nothing is mounted at {CGROUPS}, without which slurmd does not start; "
            f"mount it with: mount -t cgroup2 none {CGROUPS}"
        )


def lines_of(settings: Mapping[str, str | int]) -> str:
    """Settings as slurm.conf has them."""
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def machine_size() -> tuple[int, int]:
    """Processors and MiB that each local node says it has: those of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return max(os.cpu_count() or 1, 2), memory


def short_link(state_dir: Path) -> Path:
    """A short path to `<state_dir>/clusters`.

    Unix sockets (munge, slurmstepd, the agent) allow 107 characters of path only.
    """
    target = str(state_dir / "clusters")
    digest = hashlib.sha256(target.encode()).hexdigest()
    for number in range(8):
        # Made by symlink(2), which never follows.
        link = Path("/tmp") / f"ty-{digest[number * 8 : number * 8 + 8]}"  # noqa: S108
        try:
            link.symlink_to(target)
        except FileExistsError:
            # Another user may have taken the name on purpose: use only what is ours and points
            # where it should.
            if (
                not link.is_symlink()
                or link.lstat().st_uid != os.getuid()
                or os.readlink(link) != target
            ):
                continue
        return link
    raise RuntimeError("no free name for the short link to the state directory in /tmp")


def remove_short_link(state_dir: Path) -> None:
    """Undo `short_link`; fine if it is not there."""
    target = str(state_dir / "clusters")
    digest = hashlib.sha256(target.encode()).hexdigest()
    for number in range(8):
        link = Path("/tmp") / f"ty-{digest[number * 8 : number * 8 + 8]}"  # noqa: S108
        if link.is_symlink() and link.lstat().st_uid == os.getuid() and os.readlink(link) == target:
            link.unlink()


class Ports:
    """TCP ports for Slurm daemons, below the range from which the kernel hands out ports itself.

    What was taken is bound, so that another local cloud does not take it before the daemon listens
    there.
    """

    def __init__(self, first: int, count: int = 1000) -> None:
        self._range = range(first, first + count)
        self._taken: dict[int, socket.socket] = {}
        self._lock = threading.Lock()

    def take(self) -> int:
        """Raises RuntimeError when all are taken."""
        with self._lock:
            for port in self._range:
                if port not in self._taken and (held := _held(port)):
                    self._taken[port] = held
                    return port
        raise RuntimeError(
            f"no free port in {self._range.start} to {self._range.stop}; "
            "set TRAINYARD_LOCAL_SLURM_PORT to another start"
        )

    def give_back(self, ports: Sequence[int]) -> None:
        with self._lock:
            for port in ports:
                if held := self._taken.pop(port, None):
                    held.close()


def _held(port: int) -> socket.socket | None:
    """The port, bound if it is free.

    A daemon that reuses addresses, as Slurm's do, can listen there all the same.
    """
    held = socket.socket()
    try:
        held.bind(("", port))
    except OSError:
        held.close()
        return None
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held


@dataclass(frozen=True)
class SlurmNode:
    """A compute node as slurm.conf knows it.

    It keeps its address and port when the instance behind it is replaced.
    """

    address: str
    port: int
    partition: str


@dataclass
class SlurmCluster:
    """One cluster's Slurm. `home` is `<short link>/<cluster id>`."""

    cluster_id: str
    home: Path
    controller_port: int
    nodes: list[SlurmNode] = field(init=False, default_factory=list)
    #: By which a command that hangs is found when the cluster ends.
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def munge_socket(self) -> Path:
        return self.home / "munge" / "sock"

    @property
    def nodes_file(self) -> Path:
        return self.home / "slurm" / "nodes.conf"

    @property
    def temporary(self) -> Path:
        """What killed jobs leave behind goes with the cluster.

        One directory for all nodes: sockets that torch makes here need a short path.
        """
        return self.home / "tmp"

    def write_nodes(self, nodes: list[SlurmNode]) -> None:
        """Write the nodes and partitions, which every node's slurm.conf includes."""
        self.nodes = nodes
        cpus, memory = machine_size()
        lines = [
            f"NodeName={node_name(node.address)} NodeHostname=localhost "
            f"NodeAddr={loopback.ADDRESS} Port={node.port} CPUs={cpus} "
            # CLOUD, as HyperPod writes it: Slurm then prints IDLE+CLOUD.
            f"RealMemory={memory} State=CLOUD"
            for node in self.nodes
        ]
        partitions: dict[str, list[str]] = {}
        for node in self.nodes:
            partitions.setdefault(node.partition, []).append(node_name(node.address))
        default = "main" if "main" in partitions else next(iter(partitions), "")
        lines += [
            f"PartitionName={name} Nodes={','.join(members)} "
            f"Default={'YES' if name == default else 'NO'} "
            "MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE"
            for name, members in partitions.items()
        ]
        self.replace_nodes_file(lines)

    def replace_nodes_file(self, lines: Sequence[str]) -> None:
        """A daemon that starts at this moment reads the old file or the new one."""
        self.nodes_file.parent.mkdir(parents=True, exist_ok=True)
        part = self.nodes_file.with_suffix(".part")
        part.write_text("\n".join(lines) + "\n")
        part.replace(self.nodes_file)

    def configuration(self, root: Path) -> str:
        """slurm.conf of one node."""
        return lines_of(self.daemons(root) | SETTINGS) + f"Include {self.nodes_file}\n"

    def daemons(self, root: Path) -> dict[str, str | int]:
        """Where the daemons of one node listen and write.

        Files lie below its root, except the spool: its sockets need a short path.
        """
        user = pwd.getpwuid(os.getuid()).pw_name
        settings: dict[str, str | int] = {
            "ClusterName": self.cluster_id,
            "SlurmctldHost": f"localhost({loopback.ADDRESS})",
            "SlurmctldPort": self.controller_port,
            "SlurmUser": user,
            "SlurmdUser": user,
            "AuthType": "auth/munge",
            "CredType": "cred/munge",
            "AuthInfo": f"socket={self.munge_socket},cred_expire=5",
            "SlurmctldPidFile": f"{root}/var/run/slurmctld.pid",
            "SlurmdPidFile": f"{root}/var/run/slurmd.pid",
            "SlurmctldLogFile": f"{root}/var/log/slurm/slurmctld.log",
            "SlurmdLogFile": f"{root}/var/log/slurm/slurmd.log",
            "StateSaveLocation": f"{root}/var/spool/slurmctld",
            "SlurmdSpoolDir": f"{self.home}/slurm/%n",
        }
        if loopback.possible():
            settings["CommunicationParameters"] = loopback.SETTING
        return settings

    def start_munge(self, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        """Start the cluster's own munge daemon and wait until it listens.

        It has a key of its own, which stays.
        """
        directory = self.home / "munge"
        directory.mkdir(parents=True, exist_ok=True, mode=0o755)
        key = directory / "key"
        if not key.exists():
            handle = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(128))
        self.munge_socket.unlink(missing_ok=True)  # of one that was killed
        argv = [
            "munged", "--foreground", "--force", f"--key-file={key}",
            f"--socket={self.munge_socket}", f"--pid-file={directory}/pid",
            f"--seed-file={directory}/seed", f"--log-file={directory}/log", "--num-threads=2",
        ]  # fmt: skip
        with open(directory / "out", "ab") as out:
            daemon = subprocess.Popen(
                argv,
                env={**environment, "PATH": SEARCH_PATH},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        _await_socket(self.munge_socket, daemon, directory / "out")
        return daemon

    def scontrol(self, configuration: Path, *arguments: str) -> str:
        """Run scontrol against this cluster.

        Raises subprocess.CalledProcessError or TimeoutExpired.
        """
        done = subprocess.run(
            ["scontrol", *arguments],
            env={**self.tags, "PATH": SEARCH_PATH, "SLURM_CONF": str(configuration)},
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        return done.stdout


def _await_socket(
    path: Path, daemon: subprocess.Popen[bytes], log: Path, seconds: float = 10.0
) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and daemon.poll() is None:
        if path.exists():
            return
        time.sleep(0.01)
    raise RuntimeError(f"munged did not start: {log.read_text(errors='replace')[-500:]}")

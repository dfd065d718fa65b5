"""A node that is a machine: its own kernel namespaces, systemd, network and disk.

The other kind of node is a process tree.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainyard_local.machines.faults import faults_of
from trainyard_local.machines.host import SEARCH_PATH
from trainyard_local.machines.network import Network, run
from trainyard_local.machines.relay import Relay
from trainyard_local.nodes import processes as node_processes
from trainyard_local.nodes.faults import NodeFault
from trainyard_local.nodes.node import CREDENTIALS, LifecycleFailed, Node, Say, store_files

if TYPE_CHECKING:
    from trainyard_local.machines.cloud import Machines

#: The only file that the node's CloudWatch agent reads, and about how often it sends what is new
#: (AWS: SageMaker HyperPod FAQ).
PROVISIONING_LOG = "var/log/provision/provisioning.log"
UPLOAD_SECONDS = 5.0
BOOT_SECONDS = 60.0
KEEPER_SECONDS = 10.0
#: Python with torch, where examples expect it; and where HyperPod's agent puts what it downloads.
JOB_PYTHON = "/opt/trainyard/env"
DOWNLOADS = "tmp/lifecycle"
ROOT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Mounts the node's disk where only it and its keeper see it: no mount is left when they are gone.
BOOT = 'mount -t overlay overlay -o "$1" "$2" && shift 2 && exec "$@"'
AGENT = "trainyard-agent"
SESSION_USER = "ssm-user"


@dataclass
class MachineNode(Node):
    """An instance that boots. A replacement has another address, and so another name."""

    machines: Machines = field(repr=False, kw_only=True)
    init: int = 0
    silenced: bool = False
    """A fault keeps everything that it says from everybody."""
    relay: Relay | None = field(repr=False, default=None)
    _pid_namespace: int = 0
    _keeper: subprocess.Popen[bytes] | None = field(repr=False, default=None)

    @property
    def root(self) -> Path:
        """The node's own root directory, seen from here; the bare disk while it is off."""
        return Path(f"/proc/{self.init}/root") if self.init else self._disk

    @property
    def network(self) -> Network:
        return self.machines.network

    @property
    def _disk(self) -> Path:
        return self.home / "disk" / "upper"

    def processes(self) -> list[node_processes.Process]:
        return node_processes.in_pid_namespace(self._pid_namespace) if self._pid_namespace else []

    def prepare(
        self, slurm: Any, resources: Mapping[str, Any], shared: Path, aws: Mapping[str, str]
    ) -> None:
        """Lay out a fresh disk and boot from it; the metadata service has the role's keys."""
        self.environment = dict(self.machines.environment)
        self.machines.came(self.address, {name: aws[name] for name in CREDENTIALS})
        for directory in ("disk/upper", "disk/work", "machine"):
            (self.home / directory).mkdir(parents=True, exist_ok=True)
        settings = "".join(
            f'DefaultEnvironment="{name}={value}"\n' for name, value in self.environment.items()
        )
        self._write("etc/systemd/system.conf.d/aws.conf", f"[Manager]\n{settings}")
        self._write("etc/machine-id", uuid.uuid4().hex + "\n")
        self._write(
            "etc/resolv.conf", f"nameserver {self.network.host}\noptions timeout:2 attempts:1\n"
        )
        self._write("etc/pip.conf", self.machines.index.configuration)
        self._write("root/.aws/config", self._aws_config())
        self._write("opt/ml/config/resource_config.json", json.dumps(resources, indent=2))
        self._boot()

    def _aws_config(self) -> str:
        """For jobs, which have nothing of the agent's environment: no machine is on AWS."""
        found = self.environment
        return (
            f"[default]\nregion = {found['AWS_REGION']}\n"
            f"endpoint_url = {found['AWS_ENDPOINT_URL']}\n"
            f"ec2_metadata_service_endpoint = {found['AWS_EC2_METADATA_SERVICE_ENDPOINT']}\n"
        )

    def _write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    # -- power ------------------------------------------------------------------------------------

    def _boot(self) -> None:
        keeper = self._keeper = self._start_machine()
        deadline = time.monotonic() + BOOT_SECONDS
        try:
            self.init = _await(lambda: _init_of(keeper), deadline, "its init")
            self._pid_namespace = os.stat(f"/proc/{self.init}/ns/pid").st_ino
            self._connect(deadline)
            self.powered = True
            _await(lambda: self._system_state() in ("running", "degraded"), deadline, "systemd")
        except (OSError, subprocess.SubprocessError) as error:
            self.kill()
            raise OSError(
                f"the machine did not boot: {error}; its console is {self._console}"
            ) from error

    @property
    def _console(self) -> Path:
        return self.home / "console.log"

    def _start_machine(self) -> subprocess.Popen[bytes]:
        lower, work, root = self.machines.image, self.home / "disk" / "work", self.home / "machine"
        argv = [
            "unshare", "--mount", "--propagation", "private", "--",
            "sh", "-c", BOOT, "boot",
            f"lowerdir={lower},upperdir={self._disk},workdir={work}", str(root),
            "systemd-nspawn", "--quiet", f"--directory={root}", "--register=no", "--keep-unit",
            "--link-journal=no", "--resolv-conf=off",
            "--timezone=off", "--console=pipe", f"--machine={self._machine}",
            f"--hostname={self.name}", f"--network-bridge={self.network.bridge}",
            f"--bind={self.machines.filesystems}:/.fsx", f"--bind-ro={sys.prefix}:{JOB_PYTHON}",
            *(f"--bind-ro={path}" for path in _interpreter()),
            *(f"--setenv={tag}" for tag in self._tags()), "--boot",
        ]  # fmt: skip
        with open(self._console, "ab") as console:
            return subprocess.Popen(
                argv,
                env={"PATH": SEARCH_PATH, "TRAINYARD_LOCAL": str(self.state_dir)},
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    @property
    def _machine(self) -> str:
        """Its interface on the bridge is called after it, and has 15 characters at most."""
        return f"{self.network.machine_prefix}-{self.address.rpartition('.')[2]}"

    def _tags(self) -> list[str]:
        """The environment of init only: systemd hands none of it on."""
        return [
            f"TRAINYARD_LOCAL={self.state_dir}",
            f"TRAINYARD_CLUSTER={self.cluster_id}",
            f"TRAINYARD_NODE={self.instance_id}",
        ]

    def _connect(self, deadline: float) -> None:
        enter = ["nsenter", "-t", str(self.init), "-n", "ip"]
        _await(
            lambda: (Path(f"/proc/{self.init}/net/dev")).read_text().count("host0"),
            deadline,
            "its network interface",
        )
        run(
            [
                *enter,
                "address",
                "replace",
                f"{self.address}/{self.network.subnet.prefixlen}",
                "dev",
                "host0",
            ]
        )
        run([*enter, "link", "set", "lo", "up"])
        run([*enter, "link", "set", "host0", "up"])

    def _system_state(self) -> str:
        asked = self.start_as_root(
            ["systemctl", "is-system-running"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return asked.communicate(timeout=10)[0].decode().strip()

    def kill(self) -> int:
        """Power off: the kernel ends everything with init, at once, and closes no connection."""
        self.powered = self.frozen = self.silenced = False
        with contextlib.suppress(subprocess.SubprocessError):  # no link before the boot
            # Else the kernel would close the connections of the killed processes.
            run(["ip", "link", "set", self.link, "down"])
        if self.relay is not None:
            self.relay.close()
            self.relay = None
        killed = len(self.processes())
        node_processes.kill(self._mine())
        self.init = self._pid_namespace = 0
        self._await_keeper()
        return killed

    def _await_keeper(self) -> None:
        """systemd-nspawn outlives its machine for a moment. Until then the disk cannot boot."""
        if self._keeper is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._keeper.wait(KEEPER_SECONDS)
            self._keeper.kill()
            self._keeper.wait()
            self._keeper = None

    @property
    def answers(self) -> bool:
        return super().answers and not self.silenced

    @property
    def link(self) -> str:
        """Its interface on the bridge, as systemd-nspawn calls it."""
        return f"vb-{self._machine}"

    def faults(self) -> dict[str, NodeFault]:
        return {**super().faults(), **faults_of(self)}

    def agents(self) -> list[int]:
        named = (process for process in self.processes() if "trainyard_agent" in process.command)
        return [process.pid for process in named if " daemon " in f"{process.command} "]

    def stop_agent(self) -> int:
        agents = self.agents()
        node_processes.kill_pids(agents)
        self.run("systemctl", "stop", AGENT)  # before systemd starts it again
        return len(agents)

    def start_agent(self) -> None:
        self.run("systemctl", "start", AGENT)

    def freeze(self) -> dict[str, Any]:
        self.frozen = True
        stopped: set[int] = set()
        while fresh := {process.pid for process in self.processes()} - stopped:
            node_processes.stop_pids(fresh)
            stopped |= fresh
        return {"stopped": len(stopped)}

    def thaw(self) -> None:
        node_processes.continue_pids(process.pid for process in self.processes())
        self.frozen = False

    def forbid_sudo(self) -> None:
        self._write("etc/sudoers.d/sessions", "")

    def slurmd_without_options(self) -> None:
        """Let the image's unit start slurmd without what a lifecycle script could give it."""
        unit = self.root / "etc/systemd/system/slurmd.service"
        unit.write_text(unit.read_text().replace(" $SLURMD_OPTIONS", ""))

    def start_services(self, timeout_seconds: float = BOOT_SECONDS) -> None:
        """Boot again from the disk that is there."""
        if not self.init:
            self._boot()

    def destroy(self) -> None:
        super().destroy()
        self.machines.gone(self.address)

    # -- programs ---------------------------------------------------------------------------------

    def start(
        self, argv: Sequence[str], *, cwd: Path | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start a program as a session does: as `ssm-user`, with sudo and without a shell."""
        user = ["setpriv", f"--reuid={SESSION_USER}", f"--regid={SESSION_USER}", "--init-groups"]
        return self._start(
            [
                *user,
                "env",
                "-i",
                f"HOME=/home/{SESSION_USER}",
                f"USER={SESSION_USER}",
                f"PATH={ROOT_PATH}",
                *argv,
            ],
            **options,
        )

    def start_as_root(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a program as HyperPod's own agent on the node does."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return self._start(
            ["env", "-i", "HOME=/root", f"PATH={ROOT_PATH}", "LANG=C.UTF-8", *variables, *argv],
            **options,
        )

    def run(self, *argv: str, timeout: float = 30.0) -> str:
        """Run a program as root and return what it printed.

        Raises subprocess.CalledProcessError or TimeoutExpired.
        """
        process = self.start_as_root(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, error = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        if process.returncode:
            raise subprocess.CalledProcessError(
                process.returncode,
                argv,
                out.decode(errors="replace"),
                error.decode(errors="replace"),
            )
        return out.decode(errors="replace")

    def _start(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        if not self.init:
            raise OSError(f"{self.name} is off")
        enter = [
            "nsenter",
            "-t",
            str(self.init),
            "-m",
            "-u",
            "-i",
            "-n",
            "-p",
            "-C",
            "-r",
            "-w",
            "--",
        ]
        options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen(
            [*enter, *argv], env={"PATH": SEARCH_PATH}, start_new_session=True, **options
        )

    def run_lifecycle(
        self, files: Mapping[str, bytes], entry: str, timeout_seconds: float, say: Say
    ) -> None:
        """Run the entry script as root.

        Only what it writes to provisioning.log is ever seen, and of a failure only what was sent in
        time.
        """
        store_files(files, self.root / DOWNLOADS)
        script = self.root / DOWNLOADS / entry
        if not script.is_file():
            raise LifecycleFailed([f"[SageMaker] {entry} was not found in the provided S3 path"])
        script.chmod(0o755)
        log = _Upload(self.root / PROVISIONING_LOG, say)
        with open(self.home / "lifecycle-output.log", "wb") as out:
            process = self.start_as_root(
                [f"/{DOWNLOADS}/{entry}"], stdout=out, stderr=subprocess.STDOUT
            )
        problem = self._outcome(process, timeout_seconds, log.look)
        if problem:
            raise LifecycleFailed([f"[SageMaker] The lifecycle scripts failed: {entry} {problem}"])
        log.look(at_once=True)


class _Upload:
    """CloudWatch's agent on the node: sends whole new lines of one file every few seconds."""

    def __init__(self, path: Path, say: Say) -> None:
        self._path, self._say = path, say
        self._sent = 0
        self._next = 0.0

    def look(self, *, at_once: bool = False) -> None:
        if time.monotonic() < self._next and not at_once:
            return
        self._next = time.monotonic() + UPLOAD_SECONDS
        try:
            text = self._path.read_bytes()[self._sent :]
        except OSError:
            return
        whole, newline, _ = text.rpartition(b"\n")
        self._sent += len(whole) + len(newline)
        if newline:
            self._say(whole.decode(errors="replace").split("\n"))


def _interpreter() -> list[str]:
    """What the job's Python needs of this machine, at the same place.

    It is where a virtual environment's interpreter really lies.
    """
    base = Path(sys.base_prefix).resolve()
    return [] if base == Path("/usr") else [str(base)]


def _init_of(keeper: subprocess.Popen[bytes]) -> int:
    """The pid, here, of the process that is number 1 in there; 0 while there is none."""
    if keeper.poll() is not None:
        raise OSError(f"systemd-nspawn ended with status {keeper.returncode}")
    for process in node_processes.descendants(keeper.pid):
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{process}/status").read_text()
            numbers = next(
                line for line in status.splitlines() if line.startswith("NSpid:")
            ).split()[1:]
            if len(numbers) > 1 and numbers[-1] == "1" and "systemd" in status.partition("\n")[0]:
                return process
    return 0


def _await(condition: Callable[[], Any], deadline: float, what: str) -> Any:
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise OSError(f"{what} did not come within {BOOT_SECONDS:.0f} s")
        time.sleep(0.05)
    return found

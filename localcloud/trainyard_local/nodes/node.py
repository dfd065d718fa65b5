"""One instance of a local cluster: its disk is a directory, and all its programs a process tree."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TextIO

from trainyard_local.nodes import processes as node_processes
from trainyard_local.nodes import shared_mount
from trainyard_local.nodes.faults import NodeFault
from trainyard_local.slurm import loopback
from trainyard_local.slurm.cluster import SEARCH_PATH, SlurmCluster, node_name

#: Text that HyperPod puts into FailureMessage (facts: SageMaker Developer Guide, troubleshooting).
LIFECYCLE_FAILED = (
    "Lifecycle scripts did not run successfully. Ensure the scripts exist in provided S3 path, "
    "are accessible, and run without errors. "
    "Please see CloudWatch logs for lifecycle script execution details."
)


#: Processes of a node all run as one user, so sudo has nothing to do. It finds programs below the
#: node's root, as a session does.
SUDO = """\
#!/bin/sh
if [ "$1" = -n ]; then shift; fi
program=$1
shift
if [ -x "$TRAINYARD_ROOT$program" ]; then program=$TRAINYARD_ROOT$program; fi
exec "$program" "$@"
"""
#: The commands of AWS's command line that scripts on nodes need; HyperPod's image has it.
AWS_PROGRAM = (
    f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).with_name("aws_program.py")}" "$@"\n'
)
#: Scripts that the init system starts at each boot, whoever put them there.
BOOT = "etc/boot.d"
#: Variables of a role session's keys.
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
#: The node's CloudWatch agent sends its log about this often.
LOOK_SECONDS = 1.0
Say = Callable[[list[str]], None]


class LifecycleFailed(Exception):
    """A lifecycle script failed, hung, or could not be run.

    `lines` are the last of the node's lifecycle log, `message` is what HyperPod says.
    """

    def __init__(self, lines: list[str], message: str = LIFECYCLE_FAILED) -> None:
        super().__init__(message)
        self.lines = lines


@dataclass
class Node:
    """An instance that is a process tree.

    `address` (and so the Slurm name) outlives a replacement, everything else does not.
    """

    instance_id: str
    group: str
    instance_type: str
    label: str
    address: str
    home: Path
    """`<short link>/<cluster id>/nodes/<instance id>`: so the paths of sockets are short."""
    state_dir: Path
    cluster_id: str
    environment: dict[str, str] = field(repr=False, default_factory=dict)
    status: str = "Pending"
    message: str = ""
    powered: bool = False
    frozen: bool = False
    #: The directory in the place of the shared filesystem, and where its programs find it.
    mounted: tuple[Path, str] | None = None
    #: Its own /etc/hosts, where nodes know each other by name; only with `mounted`.
    hosts: Path | None = None
    launched_at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    @property
    def name(self) -> str:
        return node_name(self.address)

    @property
    def root(self) -> Path:
        return self.home / "root"

    @property
    def slurm_conf(self) -> Path:
        return self.root / "opt/slurm/etc/slurm.conf"

    @property
    def answers(self) -> bool:
        """Whether any process on the node could answer."""
        return self.powered and not self.frozen

    @property
    def connected(self) -> bool:
        """Whether its Session Manager agent would answer: it is on, and something runs on it."""
        return self.answers and bool(self.processes())

    def processes(self) -> list[node_processes.Process]:
        return node_processes.matching(self._mine())

    def _mine(self) -> Any:
        return node_processes.of_node(self.state_dir, self.instance_id, self.name, self.cluster_id)

    def prepare(
        self,
        slurm: SlurmCluster,
        resources: Mapping[str, Any],
        shared: Path,
        aws: Mapping[str, str],
    ) -> None:
        """Lay out a fresh instance's disk as HyperPod's image does, before lifecycle scripts."""
        config = self.root / "opt/ml/config/resource_config.json"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(json.dumps(resources, indent=2))
        self.lay_out(slurm, shared, aws)
        self.environment["SAGEMAKER_RESOURCE_CONFIG_PATH"] = str(config)

    def lay_out(self, slurm: SlurmCluster, shared: Path, aws: Mapping[str, str]) -> None:
        """A fresh instance's disk and environment, as an image with Slurm has them."""
        for directory in (
            "opt/slurm/etc",
            "var/spool/slurmctld",
            "var/log/slurm",
            "var/run",
            "root",
            "tmp",
        ):
            (self.root / directory).mkdir(parents=True, exist_ok=True)
        self.slurm_conf.write_text(slurm.configuration(self.root))
        _write_program(self.root / "usr/bin/sudo", SUDO)
        _write_program(self.root / "usr/bin/aws", AWS_PROGRAM)
        shutil.rmtree(slurm.home / "slurm" / self.name, ignore_errors=True)
        slurm.temporary.mkdir(exist_ok=True)
        self._write_aws(aws)
        self.environment = {**self._environment(slurm, shared), **aws}

    def _write_aws(self, aws: Mapping[str, str]) -> None:
        """What a job finds as it finds the instance's role on AWS: its environment has no keys."""
        directory = self.root / "root" / ".aws"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        (directory / "config").write_text(
            f"[default]\nregion = {aws['AWS_REGION']}\nendpoint_url = {aws['AWS_ENDPOINT_URL']}\n"
        )
        keys = "".join(f"{name.lower()} = {aws[name]}\n" for name in CREDENTIALS)
        file = directory / "credentials"
        file.touch(mode=0o600)
        file.write_text(f"[default]\n{keys}")

    def _environment(self, slurm: SlurmCluster, shared: Path) -> dict[str, str]:
        """What every program on this node finds in its environment."""
        return {
            "PATH": f"{self.root}/opt/trainyard/bin:{self.root}/usr/bin:{SEARCH_PATH}",
            "HOME": str(self.root / "root"),
            "LANG": "C.UTF-8",
            "TMPDIR": str(slurm.temporary),
            "TRAINYARD_LOCAL": str(self.state_dir),
            "TRAINYARD_CLUSTER": self.cluster_id,
            "TRAINYARD_NODE": self.instance_id,
            "TRAINYARD_ROOT": str(self.root),
            "TRAINYARD_ADDRESS": self.address,
            "TRAINYARD_PYTHON": sys.executable,
            "TRAINYARD_SHARED": str(shared),
            "TRAINYARD_MUNGE_SOCKET": str(slurm.munge_socket),
            "SLURM_CONF": str(self.slurm_conf),
        }

    def run_lifecycle(
        self, files: Mapping[str, bytes], entry: str, timeout_seconds: float, say: Say
    ) -> None:
        """Download the lifecycle files and run the entry script. Raises LifecycleFailed.

        `say` gets what it prints while it runs.
        """
        directory = self.home / "lifecycle"
        store_files(files, directory)
        script = directory / entry
        if not script.is_file():
            raise LifecycleFailed([f"[SageMaker] {entry} was not found in the provided S3 path"])
        script.chmod(0o755)
        problem, rest = self.run_to_end([str(script)], directory, timeout_seconds, say)
        if problem:
            raise LifecycleFailed(
                [*rest, f"[SageMaker] The lifecycle scripts failed: {entry} {problem}"]
            )
        say(rest)

    def run_to_end(
        self, argv: Sequence[str], cwd: Path, timeout_seconds: float, say: Say
    ) -> tuple[str, list[str]]:
        """Run a script of the boot: what went wrong, or '', and its lines that were not said yet.

        `say` gets what it prints while it runs.
        """
        output = self.home / "lifecycle-output.log"
        self.powered = True
        with open(output, "wb") as out:
            # The daemons that the script starts outlive it, so it writes to a file: a pipe would
            # never close.
            process = self.start(argv, cwd=cwd, stdout=out, stderr=subprocess.STDOUT)
        with open(output, errors="replace") as printed:
            problem = self._outcome(
                process, timeout_seconds, lambda: _say_whole_lines(printed, say)
            )
            return problem, printed.read().splitlines()

    def _outcome(
        self, process: subprocess.Popen[bytes], timeout_seconds: float, look: Callable[[], None]
    ) -> str:
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                code = process.wait(max(0.0, min(LOOK_SECONDS, deadline - time.monotonic())))
                return f"exited with status {code}" if code else ""
            except subprocess.TimeoutExpired:
                look()
            if time.monotonic() >= deadline:
                self.kill()
                process.wait()
                return f"did not finish within {timeout_seconds:g} seconds"

    def forbid_sudo(self) -> None:
        """Forbid sessions to become root from now on."""
        (self.root / "usr/bin/sudo").write_text(
            "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n"
        )

    def start_services(self, timeout_seconds: float = 30.0) -> None:
        """What the init system does at boot."""
        self.powered = True
        ours = self.root / "opt/trainyard/bin/start-services"
        for script in [*sorted((self.root / BOOT).glob("*")), ours]:
            if script.exists():
                self._at_boot(script, timeout_seconds)

    def _at_boot(self, script: Path, timeout_seconds: float) -> None:
        with open(self.home / "boot.log", "ab") as out:
            process = self.start(["bash", str(script)], stdout=out, stderr=subprocess.STDOUT)
        try:
            process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def start(
        self, argv: Sequence[str], *, cwd: Path | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start a program on this node; no shell.

        An absolute program is looked up below the node's root first.
        """
        program = argv[0]
        if program.startswith("/") and (self.root / program[1:]).exists():
            program = str(self.root / program[1:])
        options = {"stdin": subprocess.DEVNULL, "start_new_session": True, **options}
        options |= {"cwd": cwd or self.root, "env": self.environment}
        if self.mounted is None:
            return loopback.popen([program, *argv[1:]], **options)
        return shared_mount.popen([program, *argv[1:]], *self.mounted, hosts=self.hosts, **options)

    def faults(self) -> dict[str, NodeFault]:
        """The faults of this kind of node, by name; other kinds have others."""
        return {
            "freeze-node": NodeFault(lambda _request: self.freeze(), self.thaw),
            "freeze-agent": NodeFault(lambda _request: self.freeze_agent(), self.thaw),
        }

    def freeze(self) -> dict[str, Any]:
        """Pause all processes, as under a kernel in trouble or on a frozen host.

        Ports still accept connections.
        """
        self.frozen = True
        return {"stopped": len(node_processes.freeze(self._mine()))}

    def agents(self) -> list[int]:
        """The pids of its Trainyard agent, and of what would start that again."""
        return [process.pid for process in self.processes() if is_agent(process)]

    def freeze_agent(self) -> dict[str, Any]:
        """Pause only the agent; everything else on the node goes on."""
        agents = self.agents()
        node_processes.stop_pids(agents)
        return {"stopped": len(agents)}

    def stop_agent(self) -> int:
        """SIGKILL the agent, and let nothing start it again. Returns how many processes died."""
        (self.root / "var/run/trainyard").mkdir(parents=True, exist_ok=True)
        (self.root / "var/run/trainyard/agent.stop").touch()
        agents = self.agents()
        node_processes.kill_pids(agents)
        return len(agents)

    def start_agent(self) -> None:
        self.start_services()

    def thaw(self) -> None:
        node_processes.thaw(self._mine())
        self.frozen = False

    def kill(self) -> int:
        """Power off: SIGKILL of everything on the node at once. Returns how many processes died."""
        self.powered = self.frozen = False
        killed = node_processes.kill(self._mine())
        # /var/run is memory on a real machine; its pid files must not outlive the power.
        shutil.rmtree(self.root / "var/run", ignore_errors=True)
        return killed

    def destroy(self) -> None:
        """Power off and lose the disk."""
        self.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def config(self) -> dict[str, Any]:
        """This instance's entry in resource_config.json."""
        return {
            "InstanceName": self.label,
            "AgentIpAddress": self.address,
            "CustomerIpAddress": self.address,
            "InstanceId": self.instance_id,
            "InstanceLabel": "INSTANCE_LABEL",
        }


def is_agent(process: node_processes.Process) -> bool:
    """It is the node's Trainyard agent, or what starts that again."""
    command = process.command
    named = "run/trainyard/agent.stop" in command or "trainyard_agent" in command
    return "TRAINYARD_NODE" in process.environment and named


def _write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _say_whole_lines(printed: TextIO, say: Say) -> None:
    """Say the lines that are new; the last one may still be written to."""
    begin = printed.tell()
    text = printed.read()
    whole, newline, _ = text.rpartition("\n")
    printed.seek(begin)
    if newline:
        printed.read(len(whole) + 1)
        say(whole.split("\n"))


def store_files(files: Mapping[str, bytes], directory: Path) -> None:
    """Write downloaded objects below `directory`; a key that would leave it is refused."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(directory)
    base = os.path.abspath(directory)
    for key, body in files.items():
        target = os.path.abspath(os.path.join(base, key))
        if not target.startswith(base + os.sep):
            raise LifecycleFailed(
                [f"[SageMaker] object key {key!r} leaves the lifecycle directory"]
            )
        os.makedirs(os.path.dirname(target), exist_ok=True)
        Path(target).write_bytes(body)

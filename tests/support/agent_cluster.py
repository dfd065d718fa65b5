"""A real Slurm of several nodes on loopback, an agent on each, for tests and benchmarks."""

from __future__ import annotations

import contextlib
import fcntl
import http.server
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from tests.support.repository import ROOT
from tests.support.waiting import eventually

from trainyard_local.slurm import loopback

#: Slurm takes ports from SLURM_PORTS, BLOCK for each cluster, and the link one from LINK_PORT on.
#: Several clusters may run at once.
SLURM_PORTS, BLOCK, LINK_PORT = range(23000, 24000), 40, 5000
SLURM_SBIN = next(
    (d for d in ("/usr/sbin", "/opt/slurm/sbin") if Path(d, "slurmctld").exists()), ""
)
#: Where the locks of all test clusters of this machine lie.
CLAIMS = Path(tempfile.gettempdir())
#: Slurm's own default. Our lifecycle scripts leave it alone: it is everybody's time to save.
KILL_WAIT = 30
#: What slurm.conf says in every test cluster.
SLURM_SETTINGS = f"""
Epilog=/bin/true
LogTimeFormat=iso8601_ms
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SelectType=select/linear
SlurmdParameters=config_overrides
ReturnToService=0
SlurmctldTimeout=10
SlurmdTimeout=60
MessageTimeout=2
TCPTimeout=1
BatchStartTimeout=10
KillWait={KILL_WAIT}
UnkillableStepTimeout=60
MinJobAge=300
InactiveLimit=0
Waittime=0
CompleteWait=0
"""
PYTHON_PATH = os.pathsep.join(
    str(ROOT / part) for part in ("node_agent", "layers/contracts", "job_library", "trainers")
)


def processes_with(**variables: str) -> list[int]:
    """Pids whose environment has all these variables with these values."""
    wanted = {f"{name}={value}".encode() for name, value in variables.items()}
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted <= set((entry / "environ").read_bytes().split(b"\0")):
                found.append(int(entry.name))
    return found


def kill_all(find: Callable[[], list[int]]) -> None:
    """SIGKILL until nothing is found any more."""
    for _ in range(50):
        pids = find()
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def claim_block(directory: Path) -> tuple[int, IO[str]]:
    """Claim a number that no other test cluster on this machine has.

    Returns it with the open file whose lock keeps it and that names `directory`.

    A claim with a free lock that still names a directory is of a killed run, whose rest is ended.
    """
    for number in range(len(SLURM_PORTS) // BLOCK):
        claim = None
        try:
            claim = (CLAIMS / f"trainyard-agent-cluster-{number}.lock").open("a+")
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            claim.seek(0)
            if orphaned := claim.read().strip():
                clear(Path(orphaned))
            for port in (SLURM_PORTS[number * BLOCK], SLURM_PORTS[number * BLOCK] + 1):
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("", port))
            name_in_claim(claim, str(directory))
            return number, claim
        except OSError:
            if claim is not None:
                claim.close()
    raise AssertionError("every block of test ports is taken")


def name_in_claim(claim: IO[str], directory: str) -> None:
    claim.truncate(0)
    claim.write(directory)
    claim.flush()


def clear(directory: Path) -> None:
    """End everything that carries this TRAINYARD_LOCAL; remove what was mounted and made for it."""
    kill_all(lambda: processes_with(TRAINYARD_LOCAL=str(directory)))
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        if line.split()[1].startswith(f"{directory}/"):
            subprocess.run(["umount", "-l", line.split()[1]], check=False)
    shutil.rmtree(sockets_of(directory), ignore_errors=True)
    if not os.environ.get("TRAINYARD_KEEP"):
        shutil.rmtree(directory, ignore_errors=True)


def sockets_of(directory: Path) -> Path:
    """A short path for Unix sockets (munge, slurmstepd): they allow 107 characters of it.

    pytest's own directories may take most of them.
    """
    return CLAIMS / f"ty-agents-{sha256(str(directory).encode()).hexdigest()[:16]}"


class _SinkHandler(http.server.BaseHTTPRequestHandler):
    """A connection to a sink, which the class of its server names."""

    sink: Sink
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, *_: object) -> None:
        return

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):
            super().handle()

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_POST(self) -> None:
        request = json.loads(self.body())
        if not self.sink.reachable:
            return self.answer(503, b"{}")
        entries = []
        for entry in request["Entries"]:
            if self.sink.refuse_next_entries:
                self.sink.refuse_next_entries -= 1
                entries.append({"ErrorCode": "ThrottlingException", "ErrorMessage": "slow down"})
                continue
            self.sink.events.append((entry["DetailType"], json.loads(entry["Detail"]), time.time()))
            entries.append({"EventId": secrets.token_hex(8)})
        failed = sum("ErrorCode" in entry for entry in entries)
        return self.answer(
            200, json.dumps({"FailedEntryCount": failed, "Entries": entries}).encode()
        )

    def do_PUT(self) -> None:
        body = self.body()
        if not self.sink.reachable:
            return self.answer(503)
        if self.sink.before_put is not None:
            self.sink.before_put(self.path)
        given = self.headers.get("x-amz-checksum-sha256")
        if given and given != b64encode(sha256(body).digest()).decode():
            return self.answer(400, b"<Error><Code>BadDigest</Code></Error>")
        self.sink.objects[self.path.lstrip("/")] = (
            body[:-1] if self.sink.corrupt_puts else body,
            given,
        )
        return self.answer(200)

    def do_GET(self) -> None:
        found = self.sink.objects.get(self.path.lstrip("/"))
        if not self.sink.reachable:
            return self.answer(503)
        if found is None:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        headers = {"Content_Length": str(len(found[0]))}
        if found[1]:
            headers["x_amz_checksum_sha256"] = found[1]
        return self.answer(200, found[0], **headers)

    do_HEAD = do_GET


class Sink:
    """Stands for EventBridge and S3: keeps every event and object in memory, over real HTTP.

    `reachable=False` answers 503.
    """

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any], float]] = []
        self.objects: dict[str, tuple[bytes, str | None]] = {}
        self.reachable = True
        self.refuse_next_entries = 0
        self.corrupt_puts = False
        self.before_put: Callable[[str], None] | None = None

        class Handler(_SinkHandler):
            sink = self

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()

    def of(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        """Details of the events of one kind whose fields have these values."""
        return [
            d
            for k, d, _ in self.events
            if k == kind and all(d.get(name) == value for name, value in fields.items())
        ]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@dataclass
class Node:
    """One node of the test cluster."""

    name: str
    instance_id: str
    address: str
    role: str
    root: Path
    agent: subprocess.Popen[bytes] | None = None

    @property
    def config(self) -> Path:
        return self.root / "etc/trainyard/agent.json"


@dataclass
class AgentCluster:
    """Slurm controller, workers, and their agents; everything below `directory`."""

    directory: Path
    workers: int = 3
    sink: Sink = field(default_factory=Sink)
    #: More lines of slurm.conf, where the last of a name counts, and more words of workers' lines.
    settings: tuple[str, ...] = ()
    of_workers: str = ""

    def __post_init__(self) -> None:
        self.directory = self.directory.resolve()
        self.index, self._claim = claim_block(self.directory)
        self.shared = self.directory / "shared"
        self.sockets = sockets_of(self.directory)
        self.slurm_conf = self.directory / "slurm.conf"
        self.nodes = [self._node(i) for i in range(self.workers + 1)]
        self.controller, self.worker_nodes = self.nodes[0], self.nodes[1:]

    def _node(self, number: int) -> Node:
        address = f"127.23.{self.index}.{10 + number}"
        name = "ip-" + address.replace(".", "-")
        instance = f"i-{self.index:02d}{number:015d}"
        return Node(
            name,
            instance,
            address,
            "worker" if number else "controller",
            self.directory / "nodes" / name,
        )

    # -- up and down ------------------------------------------------------------------------------
    def start(self, *, agents: bool = True, **config: Any) -> AgentCluster:
        """Bring up Slurm and the agents."""
        for part in (
            *(self.directory / name for name in ("run", "log", "state", "shared")),
            self.sockets / "munge",
            self.sockets / "spool",
        ):
            part.mkdir(parents=True, exist_ok=True)
        for node in (
            self.nodes
        ):  # a slurmd works where its log lies, and so do its step daemons: on the node's own disk
            (node.root / "var/log").mkdir(parents=True)
        self._write_slurm_conf()
        self._start_munge()
        self._start_daemon([f"{SLURM_SBIN}/slurmctld", "-c"], self.controller)
        for node in self.worker_nodes:
            self.start_slurmd(node)
        for node in self.nodes:
            self._write_agent_config(node, config)
            if agents:
                self.start_agent(node)
        eventually("all Slurm nodes idle", lambda: self.idle() == self.workers, 20)
        return self

    def _start_munge(self) -> None:
        munge = self.sockets / "munge"
        for directory in (self.sockets, munge):
            os.chmod(directory, 0o755)
        key = munge / "key"
        key.write_bytes(secrets.token_bytes(128))
        os.chmod(key, 0o600)
        options = [
            f"--key-file={key}",
            f"--socket={munge}/sock",
            f"--pid-file={self.directory}/run/munged.pid",
        ]
        options += [
            f"--log-file={self.directory}/log/munged.log",
            f"--seed-file={munge}/seed",
            "--num-threads=2",
            "--force",
        ]
        munged = next(
            path for path in ("/usr/sbin/munged", "/usr/local/sbin/munged") if Path(path).exists()
        )
        self.run([munged, *options], self.environment(self.controller))

    def start_slurmd(self, node: Node) -> None:
        self._start_daemon([f"{SLURM_SBIN}/slurmd", "-N", node.name], node)

    def _start_daemon(self, argv: list[str], node: Node) -> None:
        """Slurm's daemons go to the background by themselves, when they are ready."""
        output = self.directory / "log" / f"start-{node.name}.log"
        with output.open("wb") as out:
            daemon = loopback.popen(argv, env=self.environment(node), stdout=out, stderr=out)
        assert daemon.wait(120) == 0, f"{argv}: {output.read_text()}"

    def start_agent(self, node: Node) -> None:
        log = (node.root / "agent.log").open("ab")
        argv = [sys.executable, "-m", "trainyard_agent", "daemon", "--config", str(node.config)]
        node.agent = subprocess.Popen(
            argv, env=self.environment(node), stdout=log, stderr=log, start_new_session=True
        )
        log.close()

    def environment(self, node: Node) -> dict[str, str]:
        """What everything on a node is started with."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": "/tmp",
            "LANG": "C.UTF-8",
            "PYTHONPATH": PYTHON_PATH,
            "SLURM_CONF": str(self.slurm_conf),
            "TRAINYARD_LOCAL": str(self.directory),
            "TRAINYARD_NODE": node.instance_id,
            "TRAINYARD_ROOT": str(node.root),
            "AWS_ENDPOINT_URL": self.sink.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }

    def _write_slurm_conf(self) -> None:
        base = SLURM_PORTS[BLOCK * self.index]
        d = self.directory
        user = __import__("getpass").getuser()
        own = f"""
ClusterName=agents{self.index}
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={base}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={self.sockets}/munge/sock,cred_expire=5
SlurmctldPidFile={d}/run/slurmctld.pid
SlurmdPidFile={d}/run/slurmd-%n.pid
SlurmctldLogFile={d}/log/slurmctld.log
SlurmdLogFile={d}/nodes/%n/var/log/slurmd.log
StateSaveLocation={d}/state
SlurmdSpoolDir={self.sockets}/spool/%n
EpilogSlurmctld={self._write_epilog()}
"""
        lines = (own.strip() + SLURM_SETTINGS).splitlines()
        lines.extend(self.settings)
        for number, node in enumerate(self.worker_nodes, start=1):
            lines.append(
                f"NodeName={node.name} NodeHostname=localhost NodeAddr=127.0.0.1 "
                f"Port={base + number} CPUs=2 RealMemory=1000 State=CLOUD {self.of_workers}"
            )
        if loopback.possible():
            lines.append(f"CommunicationParameters={loopback.SETTING}")
        lines.append(
            "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP "
            "OverSubscribe=EXCLUSIVE"
        )
        self.slurm_conf.write_text("\n".join(lines) + "\n")

    def _write_epilog(self) -> Path:
        epilog = self.directory / "slurm-job-end"
        epilog.write_text(
            f"#!/bin/sh\nTRAINYARD_ROOT={self.controller.root} PYTHONPATH={PYTHON_PATH} "
            f"exec {sys.executable} -m trainyard_agent notify-job-end\n"
        )
        epilog.chmod(0o755)
        return epilog

    def _write_agent_config(self, node: Node, changes: dict[str, Any]) -> None:
        for part in ("etc/trainyard", "var/lib/trainyard", "var/log/trainyard"):
            (node.root / part).mkdir(parents=True, exist_ok=True)
        key = node.root / "etc/trainyard/key"
        key.write_text("test-cluster-key-" + "0" * 32)
        key.chmod(0o600)
        config = {
            "clusterName": "agents",
            "clusterArn": "arn:aws:sagemaker:us-east-1:123456789012:cluster/agents000001",
            "nodeName": node.name,
            "instanceId": node.instance_id,
            "role": node.role,
            "address": node.address,
            "controllerAddress": self.controller.address,
            "linkPort": LINK_PORT + self.index,
            "keyFile": str(key),
            "sharedRoot": str(self.shared),
            "stateDir": str(node.root / "var/lib/trainyard"),
            "python": sys.executable,
            "libraryDir": PYTHON_PATH,
            "eventBus": "agents-bus",
            "region": "us-east-1",
            "dataBucket": "data",
            "slurmConf": str(self.slurm_conf),
            "heartbeatSeconds": 1.0,
            "expectedWorkers": self.workers,
        } | changes
        node.config.write_text(json.dumps(config))

    def stop(self) -> None:
        """Leave nothing behind."""
        clear(self.directory)
        for node in self.nodes:
            if node.agent is not None:
                node.agent.wait(120)
        self.sink.close()
        name_in_claim(self._claim, "")
        self._claim.close()

    # -- Slurm ------------------------------------------------------------------------------------
    @staticmethod
    def run(argv: list[str], env: dict[str, str]) -> str:
        done = subprocess.run(
            argv, env=env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{argv}: {done.stdout} {done.stderr}"
        return done.stdout

    def slurm(self, *argv: str) -> str:
        return self.run(list(argv), self.environment(self.controller))

    def idle(self) -> int:
        done = subprocess.run(
            ["sinfo", "-h", "-t", "idle", "-o", "%D"],
            env=self.environment(self.controller),
            capture_output=True,
            text=True,
            check=False,
        )
        return int(done.stdout.split()[0]) if done.stdout.split() else 0

    def node_state(self, node: Node) -> str:
        found = re.search(r"State=(\S+)", self.slurm("scontrol", "-o", "show", "node", node.name))
        return found.group(1) if found else ""

    # -- faults -----------------------------------------------------------------------------------
    def processes(self, **variables: str) -> list[int]:
        """Of this cluster only: other tests' clusters have nodes and runs of the same names."""
        return processes_with(TRAINYARD_LOCAL=str(self.directory), **variables)

    def ranks(self, run: str, node_name: str) -> list[int]:
        """The processes of the run's program on a node, of all attempts."""
        found = []
        for pid in self.processes(TRAINYARD_RUN_ID=run, SLURMD_NODENAME=node_name):
            with contextlib.suppress(OSError):  # it ended meanwhile
                if b"train.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def node_processes(self, node: Node) -> list[int]:
        return self.processes(TRAINYARD_NODE=node.instance_id) + self.processes(
            SLURMD_NODENAME=node.name
        )

    def kill_node(self, node: Node) -> float:
        """SIGKILL everything on a node at once; returns the moment."""
        at = time.time()
        kill_all(lambda: self.node_processes(node))
        return at

    def kill_agent(self, node: Node) -> None:
        assert node.agent is not None
        node.agent.kill()
        node.agent.wait()

    # -- agent's commands -------------------------------------------------------------------------
    def agent(self, *argv: str, node: Node | None = None) -> dict[str, Any]:
        """Run `trainyard-agent ...` on the controller and return its JSON."""
        done = subprocess.run(
            [sys.executable, "-m", "trainyard_agent", *argv],
            env=self.environment(node or self.controller),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.stdout, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        assert (done.returncode == 1) == ("error" in answer), done
        return answer


@contextlib.contextmanager
def agent_cluster(
    directory: Path, *, workers: int = 3, agents: bool = True, **config: Any
) -> Iterator[AgentCluster]:
    """A running cluster, ended in every case."""
    cluster = AgentCluster(directory, workers=workers)
    try:
        yield cluster.start(agents=agents, **config)
    finally:
        cluster.stop()

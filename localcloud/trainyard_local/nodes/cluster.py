"""What every cluster of local nodes has, whichever service of AWS it plays."""

from __future__ import annotations

import hashlib
import logging
import secrets
import shutil
import subprocess
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from trainyard_local.local_cloud import LocalCloud
from trainyard_local.nodes import processes as node_processes
from trainyard_local.nodes.node import Node
from trainyard_local.slurm.cluster import short_link

log = logging.getLogger(__name__)

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
#: Between two looks at the cluster's munge daemon.
KEEP_SECONDS = 0.5
FIRST_HOST = 10


def new_id() -> str:
    """Of a cluster: its directory is found by it."""
    return "".join(secrets.choice(ALPHABET) for _ in range(12))


def new_instance_id() -> str:
    return f"i-{secrets.token_hex(9)[:17]}"


class ClusterOfNodes(ABC):
    """State under `lock`; slow work in threads of its own, which end when `closing` is set."""

    cloud: LocalCloud
    id: str
    nodes: dict[str, Node]
    #: Faults of its next sessions: (moment, way).
    session_cuts: deque[tuple[str, str]]
    status: str

    def come_to_life(self) -> None:
        """What the constructor of every kind of cluster calls first."""
        self.lock = threading.RLock()
        self.closing = threading.Event()
        self.threads: list[threading.Thread] = []
        self.munge: subprocess.Popen[bytes] | None = None
        self.home = short_link(self.cloud.state_dir) / self.id
        self.directory.mkdir(parents=True, exist_ok=True)

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def arn(self) -> str: ...

    @property
    @abstractmethod
    def shared(self) -> Path:
        """The directory in the place of the shared filesystem."""

    @abstractmethod
    def role(self, group: str) -> str:
        """Controller, Login or Compute."""

    @abstractmethod
    def power_cut(self, node: Node) -> int:
        """Kill everything on the node at once."""

    @abstractmethod
    def notice_later(self, node: Node) -> None:
        """What the service does, after a while, about an instance that does not answer."""

    @abstractmethod
    def healed(self, node: Node) -> None:
        """The instance answers again."""

    @abstractmethod
    def close(self) -> None:
        """End the cluster's processes and threads, remove its directory; safe to call again."""

    @property
    def directory(self) -> Path:
        return self.cloud.state_dir / "clusters" / self.id

    def members(self, group: str | None = None) -> list[Node]:
        with self.lock:
            return [node for node in self.nodes.values() if group in (None, node.group)]

    def in_background(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True, name=f"cluster-{self.name}")
        with self.lock:
            self.threads = [*(old for old in self.threads if old.is_alive()), thread]
        thread.start()

    def everything(self, nodes: list[Node]) -> Callable[[Mapping[str, str]], bool]:
        return node_processes.of_cluster(
            self.cloud.state_dir, self.id, [node.name for node in nodes]
        )

    def keep_munge(self, start: Callable[[], subprocess.Popen[bytes] | None]) -> None:
        """Start an ended munge daemon again, as systemd does on a real node.

        Without it every question to Slurm hangs.
        """
        while not self.closing.wait(KEEP_SECONDS):
            if self.munge is not None and self.munge.poll() is not None:
                log.warning(
                    "munge of cluster %s ended with status %s: it is started again",
                    self.name,
                    self.munge.returncode,
                )
                try:
                    self.munge = start()
                except (RuntimeError, OSError) as error:
                    log.warning("munge of cluster %s cannot be started yet: %s", self.name, error)

    def end_processes(self) -> None:
        """Kill until no process and no thread of the cluster is left."""
        self.closing.set()
        known = self.members()
        while True:
            node_processes.kill(self.everything(known))
            alive = [
                thread
                for thread in self.threads
                if thread.is_alive() and thread is not threading.current_thread()
            ]
            if not alive:
                break
            alive[0].join(0.05)
        if self.munge:
            self.munge.wait()

    def remove_directory(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


def free_address(cluster: ClusterOfNodes) -> str:
    """In a /24 of loopback of the cluster's own.

    These networks are spread so that two local clouds on one machine hardly ever meet.
    """
    digest = hashlib.sha256(f"{cluster.cloud.state_dir}:{cluster.id}".encode()).digest()
    network = f"127.{16 + digest[0] % 224}.{digest[1]}"
    taken = {node.address for node in cluster.members()}
    return next(a for n in range(FIRST_HOST, 255) if (a := f"{network}.{n}") not in taken)

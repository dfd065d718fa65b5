"""Network and name of a local host: namespaces that live as long as one sleeping process.

Nothing of them has a name on this machine. Once their process and what runs in them are dead, the
kernel removes them with all their links.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence

from trainyard_local.machines.host import SEARCH_PATH

CLONE_NEWNET = 0x40000000
SECONDS = 20.0
PROGRAMS = {"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
_READY = "ready"


def missing() -> str:
    """What this machine lacks for hosts of training jobs; an empty string if nothing."""
    if os.geteuid() != 0:
        return "hosts of training jobs need root (namespaces and mounts), and this is not root"
    packages = sorted(
        {
            package
            for program, package in PROGRAMS.items()
            if shutil.which(program, path=SEARCH_PATH) is None
        }
    )
    return f"packages are missing: {', '.join(packages)}" if packages else ""


class Namespaces:
    """A network and a host name of their own. Raises OSError where that is not permitted."""

    def __init__(self, name: str, tags: Mapping[str, str]) -> None:
        script = f"hostname {name} && echo {_READY} && exec sleep infinity"
        self.name = name
        self._process = subprocess.Popen(
            ["unshare", "--net", "--uts", "sh", "-c", script],
            env={"PATH": SEARCH_PATH, **tags},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout
        assert self._process.stderr
        if self._process.stdout.readline().strip() != _READY:
            said = self._process.stderr.read().strip()
            self.close()
            raise OSError(f"no namespaces for {name}: {said}")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def enter(self) -> list[str]:
        """What begins a command that shall run in them."""
        inside = f"/proc/{self.pid}/ns"
        return ["nsenter", f"--net={inside}/net", f"--uts={inside}/uts", "--"]

    def ip(self, commands: Sequence[str]) -> None:
        """Commands of `ip`, run in this network. Raises OSError with what it said."""
        done = subprocess.run(
            [*self.enter(), "ip", "-batch", "-"],
            input="\n".join(commands) + "\n",
            env={"PATH": SEARCH_PATH},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode:
            raise OSError(f"the network of {self.name}: {done.stderr.strip()}")

    def listen(self, port: int) -> socket.socket:
        """A listener on this port of the network's own 127.0.0.1. Raises OSError."""
        found: list[socket.socket] = []
        failed: list[OSError] = []

        def take() -> None:
            try:
                _join(f"/proc/{self.pid}/ns/net")
                found.append(socket.create_server(("127.0.0.1", port), backlog=128))
            except OSError as error:
                failed.append(error)

        # The thread stays in that network, so it must be one that does nothing else.
        thread = threading.Thread(target=take, name=f"listen {self.name}")
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return found[0]

    def close(self) -> None:
        """End the process that keeps them; safe to call again."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def _join(path: str) -> None:
    """Put this thread into a network namespace. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path) as namespace:
        if libc.setns(namespace.fileno(), CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

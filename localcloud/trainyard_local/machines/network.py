"""The network of machine nodes: one bridge for a local cloud, with a 10.x network of its own.

The bridge is named after the cloud's state directory.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainyard_local.machines.host import SEARCH_PATH

FIRST_HOST = 10
PROPAGATED = Path("/run/systemd/nspawn/propagate")
SECONDS = 10.0


def ip(*arguments: str) -> str:
    """`ip` with these arguments; raises subprocess.CalledProcessError with what it said."""
    return run(["ip", *arguments])


def run(argv: Sequence[str]) -> str:
    done = subprocess.run(
        argv,
        env={"PATH": SEARCH_PATH},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise subprocess.SubprocessError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def digest(state_dir: Path) -> str:
    return hashlib.sha256(str(state_dir).encode()).hexdigest()


def bridge_name(state_dir: Path) -> str:
    """An interface's name has 15 characters at most."""
    return f"ty{digest(state_dir)[:8]}"


def hardware_address(state_dir: Path) -> str:
    """Of the bridge: local and of one machine, by the first byte's lowest bits."""
    return ":".join(["02", *(digest(state_dir)[place : place + 2] for place in range(0, 10, 2))])


class Network:
    """The bridge of one cloud. Thread safe.

    The host has the first address, nodes have those from the tenth on.
    """

    def __init__(self, state_dir: Path) -> None:
        self.bridge = bridge_name(state_dir)
        self.machine_prefix = digest(state_dir)[:5]
        self._taken: set[str] = set()
        self._next = FIRST_HOST
        self._lock = threading.Lock()
        remove(state_dir)
        self.subnet = _free_subnet(digest(state_dir))
        self.host = str(self.subnet[1])
        # A bridge without a hardware address of its own takes that of a port, and another one when
        # that node goes. The other nodes learn of the change late.
        ip(
            "link",
            "add",
            "name",
            self.bridge,
            "address",
            hardware_address(state_dir),
            "type",
            "bridge",
            "forward_delay",
            "0",
        )
        ip("address", "add", f"{self.host}/{self.subnet.prefixlen}", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")

    def take(self) -> str:
        """A free address.

        One that was given back is used again only when all others were, as in a real subnet.
        """
        with self._lock:
            for _ in range(FIRST_HOST, 255):
                address = str(self.subnet[self._next])
                self._next = self._next + 1 if self._next < 254 else FIRST_HOST
                if address not in self._taken:
                    self._taken.add(address)
                    return address
        raise RuntimeError(f"all addresses of {self.subnet} are taken")

    def give_back(self, address: str) -> None:
        with self._lock:
            self._taken.discard(address)


def remove(state_dir: Path) -> None:
    """Remove the bridge and what hangs on it; fine if nothing is there."""
    name = bridge_name(state_dir)
    if name not in (link for _, link in socket.if_nameindex()):
        return
    for link in _links():
        if link.get("master") == name or link["ifname"] == name:
            subprocess.run(
                ["ip", "link", "delete", link["ifname"]],
                env={"PATH": SEARCH_PATH},
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
    # Left by a systemd-nspawn that was killed itself.
    for left in PROPAGATED.glob(f"{digest(state_dir)[:5]}-*"):
        shutil.rmtree(left, ignore_errors=True)


def _links() -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(ip("-json", "link", "show") or "[]")
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    return found


def _free_subnet(seed: str) -> ipaddress.IPv4Network:
    """A /24 of 10.0.0.0/8 that no route of this machine touches.

    The same for the same state directory where possible.
    """
    routes = json.loads(ip("-4", "-json", "route", "show", "table", "all") or "[]")
    used = [
        ipaddress.ip_network(route["dst"], strict=False)
        for route in routes
        if route.get("dst", "default") != "default"
    ]
    for place in range(0, len(seed) - 4, 4):
        second, third = int(seed[place : place + 2], 16), int(seed[place + 2 : place + 4], 16)
        subnet = ipaddress.IPv4Network(f"10.{second}.{third}.0/24")
        if not any(
            subnet.overlaps(other) for other in used if isinstance(other, ipaddress.IPv4Network)
        ):
            return subnet
    raise RuntimeError("no free network in 10.0.0.0/8")

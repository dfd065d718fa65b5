"""Ports for what a test starts."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Nobody listens there now. Below the kernel's own range: out of that any connection takes its port, also a moment later."""
    lowest = int(_RANGE.read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(lowest - 10_000, lowest)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue

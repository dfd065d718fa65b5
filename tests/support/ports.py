"""Ports for what a test starts."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port on which nobody listens now.

    It is below the kernel's own range: any connection takes a port of that, also a moment later.
    """
    lowest = int(_RANGE.read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(lowest - 10_000, lowest)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue

"""Holds a process to its own machine: whoever looks up or connects to another one gets an error.

ParallelCluster's API and moto run in an environment without Trainyard, so this needs the standard
library only. It is imported before them.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

_lookup = socket.getaddrinfo


def _own(host: Any) -> bool:
    if host in ("localhost", None, ""):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _getaddrinfo(host: Any, *arguments: Any, **more: Any) -> Any:
    name = host.decode() if isinstance(host, bytes) else host
    if not _own(name):
        raise socket.gaierror(-2, f"this test reaches no other machine: {name}")
    return _lookup(host, *arguments, **more)


class _Socket(socket.socket):
    """The checks are at connect, where an address is given without a look-up, too."""

    def connect(self, address: Any) -> None:
        self._check(address)
        super().connect(address)

    def connect_ex(self, address: Any) -> int:
        self._check(address)
        return super().connect_ex(address)

    def _check(self, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _own(address[0]):
            raise OSError(f"this test reaches no other machine: {address}")


def hold() -> None:
    """From now on, for all of the process."""
    socket.getaddrinfo = _getaddrinfo
    socket.socket = _Socket  # type: ignore[misc]

"""The resolver of machine nodes: answers for the nodes and for AWS's names.

It is late for a node that has just booted.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import struct
import threading
import time

#: HyperPod's agent sets up a node's own resolver again after the boot. Until then nothing resolves
#: there.
LATE_SECONDS = 3.0
NODE = re.compile(r"ip-(\d+)-(\d+)-(\d+)-(\d+)(?:\..*)?", re.IGNORECASE)
SERVFAIL, NXDOMAIN = 2, 3


class Names:
    """A DNS server on the bridge's address, port 53."""

    def __init__(self, host: str, subnet: ipaddress.IPv4Network) -> None:
        self._host, self._subnet = host, subnet
        self._known_from: dict[str, float | None] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, 53))
        threading.Thread(target=self._serve, daemon=True, name="names").start()

    def booted(self, address: str) -> None:
        """That node gets answers from a few seconds after its first question on.

        However long the boot takes.
        """
        self._known_from[address] = None

    def close(self) -> None:
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                question, peer = self._socket.recvfrom(4096)
            except OSError:
                return  # closed
            # It was no question, or the asker is gone.
            with contextlib.suppress(struct.error, ValueError, IndexError, OSError):
                self._socket.sendto(self._answer(question, peer[0]), peer)

    def _answer(self, question: bytes, asker: str) -> bytes:
        """The answer to a question, A records only; see RFC 1035, section 4."""
        (number,) = struct.unpack_from("!H", question)
        name, end = _name(question)
        (kind,) = struct.unpack_from("!H", question, end)
        address = self._address(name)
        late = self._late(asker)
        code = SERVFAIL if late else 0 if address else NXDOMAIN
        found = address if kind == 1 and not code else None
        header = struct.pack("!6H", number, 0x8580 | code, 1, 1 if found else 0, 0, 0)
        record = (
            struct.pack("!HHHIH4s", 0xC00C, 1, 1, 5, 4, socket.inet_aton(found)) if found else b""
        )
        return header + question[12 : end + 4] + record

    def _late(self, asker: str) -> bool:
        known_from = self._known_from.get(asker, 0.0)
        if known_from is None:
            known_from = self._known_from[asker] = time.monotonic() + LATE_SECONDS
        return time.monotonic() < known_from

    def _address(self, name: str) -> str | None:
        if match := NODE.fullmatch(name):
            address = ".".join(match.groups())
            try:
                return address if ipaddress.ip_address(address) in self._subnet else None
            except ValueError:
                return None
        return self._host if name.endswith(".amazonaws.com") else None


def _name(question: bytes) -> tuple[str, int]:
    """The name asked for, and where it ends."""
    labels, place = [], 12
    while length := question[place]:
        labels.append(question[place + 1 : place + 1 + length].decode("ascii"))
        place += 1 + length
    return ".".join(labels).lower(), place + 1

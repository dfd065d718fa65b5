"""Finds the network interface that has this node's address, for libraries that would ask a name
server instead.

gloo takes the address of the host's name. If that does not resolve at this very moment, it takes
loopback, and the ranks of other nodes never reach this one.
"""

from __future__ import annotations

import fcntl
import socket
import struct

#: Linux, <linux/sockios.h>: the IPv4 address of an interface. Its request has the name in 16 bytes
#: and the address from the 20th on.
_SIOCGIFADDR = 0x8915


def interface_of(address: str) -> str | None:
    """The interface's name; None if no interface has this IPv4 address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, request)
            except OSError:  # it has none
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None

"""The ports that a local cloud listens on."""

from __future__ import annotations

import socket


class PortTaken(Exception):
    """Somebody else listens on the port."""


def listen(port: int, host: str = "127.0.0.1") -> socket.socket:
    """Take a port of this address; 0 is a free one. Raises PortTaken."""
    try:
        listener = socket.create_server((host, port), backlog=512)
    except OSError as error:
        raise PortTaken(
            f"cannot listen on {host}:{port}: {error.strerror}; "
            "another local cloud may be running there"
        ) from None
    listener.set_inheritable(False)
    return listener

"""The only way out of a job's network: to the local cloud's own endpoint.

A host finds the endpoint at the same address as everybody on this machine, 127.0.0.1.
"""

from __future__ import annotations

import contextlib
import socket
import threading

from trainyard_local.training_jobs.namespaces import Namespaces

BLOCK = 1 << 16


class Gate:
    """Takes connections in a host's network, and carries them to the same port outside."""

    def __init__(self, namespaces: Namespaces, port: int) -> None:
        self._port = port
        self._listener = namespaces.listen(port)
        name = f"gate {namespaces.name}"
        threading.Thread(target=self._accept, daemon=True, name=name).start()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(inner,), daemon=True).start()

    def _serve(self, inner: socket.socket) -> None:
        try:
            outer = socket.create_connection(("127.0.0.1", self._port))
        except OSError:
            inner.close()
            return
        with inner, outer:
            back = threading.Thread(target=_carry, args=(outer, inner), daemon=True)
            back.start()
            _carry(inner, outer)
            back.join()

    def close(self) -> None:
        """Take no more connections; safe to call again."""
        # A thread that waits in accept() is woken by this only.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _carry(source: socket.socket, target: socket.socket) -> None:
    """Everything from one end to the other; the end of it, too."""
    with contextlib.suppress(OSError):
        while block := source.recv(BLOCK):
            target.sendall(block)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)

"""Keeps torch's rendezvous stores on loopback where all nodes of a job share one machine; torch
opens them on every address.
"""

from __future__ import annotations

import importlib
import socket
from typing import Any


def keep_stores(module: str) -> None:
    """Replace the TCPStore of this module of torch by one that listens only on its host's address
    (torch 2.8 and later).
    """
    rendezvous: Any = importlib.import_module(module)
    opened = rendezvous.TCPStore

    def store(
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        *more: Any,
        **options: Any,
    ) -> Any:
        if is_master:
            options["master_listen_fd"] = socket.create_server((host_name, port)).detach()
        return opened(host_name, port, world_size, is_master, *more, **options)

    rendezvous.TCPStore = store

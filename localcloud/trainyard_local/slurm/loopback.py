"""Keeps Slurm of local nodes on loopback.

Its daemons and srun bind to the address of their host's name, so nodes call their host `localhost`.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import socket
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

#: One address for all of a cluster's daemons, told apart by their ports. A slurmstepd calls srun
#: back at the address that srun's connection came from. That is 127.0.0.1, whatever the two
#: addresses of loopback are.
ADDRESS = "127.0.0.1"
#: slurm.conf's words for it (Slurm 22.05: slurm_setup_addr).
SETTING = "NoInAddrAny,NoCtldInAddrAny"
CLONE_NEWUTS = 0x04000000
log = logging.getLogger("trainyard.nodes")


def popen(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """subprocess.Popen; where permitted, the program finds `localhost` as its host's name."""

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(argv, **options)

    thread = _thread()
    return thread.submit(start).result() if thread else start()


def possible() -> bool:
    """Whether a Slurm daemon started with `popen` listens on loopback only with SETTING."""
    return _thread() is not None


@functools.cache
def _thread() -> ThreadPoolExecutor | None:
    """The thread that lives in a UTS namespace of its own.

    The namespace ends with it and the last program that it started.
    """
    thread = ThreadPoolExecutor(1, "localhost")
    try:
        thread.submit(call_the_host_localhost).result()
    except OSError as error:
        log.warning(
            "Slurm's daemons of local nodes listen on every address of this machine: %s", error
        )
        thread.shutdown()
        return None
    return thread


def call_the_host_localhost() -> None:
    """For this thread and what it starts.

    Raises OSError if its host has no name that means ADDRESS afterwards.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    refused = libc.unshare(CLONE_NEWUTS) and os.strerror(ctypes.get_errno())
    if not refused:
        socket.sethostname("localhost")
    name = socket.gethostname()
    found = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
    if found != ADDRESS:
        raise OSError(
            f"the host's name {name} means {found}, "
            f"and another one is not permitted here ({refused})"
        )

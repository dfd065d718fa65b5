"""Gives the programs of a local node the shared filesystem at the path that their jobs name.

It is mounted in a mount namespace of the nodes' own, which takes root: nothing else on this machine
sees it. Where that is not permitted there is nothing at the path, and the agent refuses jobs that
name it. A cluster whose nodes know each other by name has a file of hosts of its own there, too.
"""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from trainyard_local.slurm import loopback

CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 0x80000
HOSTS = "/etc/hosts"
log = logging.getLogger("trainyard.nodes")

_threads: dict[tuple[Path, str, Path | None], ThreadPoolExecutor | None] = {}
_lock = threading.Lock()


def popen(
    argv: Sequence[str], shared: Path, at: str, *, hosts: Path | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """loopback.popen; where permitted, the program finds `shared` at the path `at`.

    `hosts`: a file that it finds in the place of the machine's own.
    """

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(argv, **options)

    thread = _thread(shared, at, hosts)
    return thread.submit(start).result() if thread else loopback.popen(argv, **options)


def _thread(shared: Path, at: str, hosts: Path | None = None) -> ThreadPoolExecutor | None:
    """The thread that lives in that namespace, and keeps it; None where it is not permitted.

    A directory that was removed and made anew is another one, which is mounted anew.
    """
    with _lock:
        key = (shared, at, hosts)
        known = _threads.get(key)
        if key in _threads and (known is None or _mounted(known, shared, at)):
            return known
        if known is not None:
            known.shutdown(wait=False)
        found = _threads[key] = _entered(shared, at, hosts)
        return found


def _mounted(thread: ThreadPoolExecutor, shared: Path, at: str) -> bool:
    try:
        return thread.submit(os.path.samefile, shared, at).result()
    except OSError:
        return False


def _entered(shared: Path, at: str, hosts: Path | None) -> ThreadPoolExecutor | None:
    named = loopback.possible()  # it warns by itself
    thread = ThreadPoolExecutor(1, "shared")
    try:
        if named:
            thread.submit(loopback.call_the_host_localhost).result()
        thread.submit(_mount, shared, at, hosts).result()
    except OSError as error:
        words = "Local nodes have nothing at %s, and jobs that name it are refused: %s"
        log.warning(words, at, error)
        thread.shutdown()
        return None
    return thread


def _mount(shared: Path, at: str, hosts: Path | None) -> None:
    """For this thread and what it starts. Raises OSError.

    What is unmounted outside is unmounted here, too; what is mounted here stays here. A mount needs
    a directory: an empty one is made on this machine where there is none.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _done(libc.unshare(CLONE_NEWNS), "a mount namespace")
    _done(libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None), "mounts of its own")
    shared.mkdir(parents=True, exist_ok=True)
    os.makedirs(at, exist_ok=True)
    _bind(libc, shared, at)
    if hosts is not None:
        _bind(libc, hosts, HOSTS)


def _bind(libc: ctypes.CDLL, source: Path, at: str) -> None:
    _done(libc.mount(os.fsencode(source), at.encode(), None, MS_BIND, None), f"a mount at {at}")


def _done(status: int, what: str) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")

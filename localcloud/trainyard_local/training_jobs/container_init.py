"""The first process of a container: makes its mounts, runs its program, ends with its status.

It runs by itself (`python -I -S container_init.py SPEC.json`) in namespaces of its own, so it needs
the standard library only. When it ends, the kernel kills what is left in the container.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount of the container's own
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC = 0x1, 0x20, 0x1000, 0x4000
#: As a shell says it: by its number, a signal that ended the program.
SIGNALLED = 128


def main() -> int:
    with open(sys.argv[1], encoding="utf-8") as file:
        spec: dict[str, Any] = json.load(file)
    # A signal that comes before the program is there waits for it.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    make_mounts(spec)
    child = os.fork()
    if child == 0:
        _execute(spec)
    signal.signal(signal.SIGTERM, lambda *_: _pass_on(child))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    return _reap(child)


def make_mounts(spec: dict[str, Any]) -> None:
    """/proc, /sys, /dev/shm, /etc/hosts and /opt/ml of the container, and its file systems."""
    _mount("proc", "/proc", "proc")
    # It shows the network of whoever mounts it.
    _mount("sys", "/sys", "sysfs", MS_RDONLY)
    _mount("shm", SHARED_MEMORY, "tmpfs")
    _mount(spec["hosts"], "/etc/hosts", flags=MS_BIND)
    _make_opt(spec["opt"])
    _mount(spec["ml"], "/opt/ml", flags=MS_BIND)
    for source, target, writable in spec["filesystems"]:
        _mount(source, target, flags=MS_BIND)
        if not writable:
            _mount("none", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def _make_opt(stage: str) -> None:
    """Everything of /opt, and a directory `ml` besides, which this machine need not have."""
    _mount("opt", stage, "tmpfs")
    for entry in os.scandir("/opt") if os.path.isdir("/opt") else ():
        target = os.path.join(stage, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
        elif entry.name != "ml":
            os.mkdir(target) if entry.is_dir() else open(target, "x").close()
            _mount(entry.path, target, flags=MS_BIND | MS_REC)
    os.makedirs(os.path.join(stage, "ml"), exist_ok=True)
    _mount(stage, "/opt", flags=MS_BIND | MS_REC)


def _mount(source: str, target: str, kind: str = "", flags: int = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    given = (os.fsencode(source), os.fsencode(target), kind.encode() or None)
    if libc.mount(*given, flags, None):
        number = ctypes.get_errno()
        raise OSError(number, f"mount at {target}: {os.strerror(number)}")


def _execute(spec: dict[str, Any]) -> None:
    """Become the program, in a process group of its own. Does not return."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    os.chdir("/")
    command = spec["command"]
    try:
        os.execvpe(command[0], command, spec["environment"])  # noqa: S606
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        # As a shell says it: not to be executed, or not there.
        os._exit(126 if isinstance(error, PermissionError) else 127)


def _pass_on(child: int) -> None:
    try:
        os.killpg(child, signal.SIGTERM)
    except ProcessLookupError:
        pass


def _reap(child: int) -> int:
    """Wait for every orphan until the program itself ends; its status."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else SIGNALLED - code


if __name__ == "__main__":
    sys.exit(main())

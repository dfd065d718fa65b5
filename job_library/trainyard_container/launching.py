"""Runs the job's launcher as this host's part of the attempt, and shows its log as it grows."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from trainyard_contracts import places
from trainyard_job.ranks import courier

from .surroundings import Surroundings

#: Linux, <sys/prctl.h>.
_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.1
_BLOCK = 1 << 16
#: Where our packages lie: beside the entry.
LIBRARY = Path(__file__).resolve().parents[1]


def environment(
    where: Surroundings, base: Mapping[str, str], key_file: Path | None
) -> dict[str, str]:
    """What the launcher finds besides what the container has."""
    paths = [str(LIBRARY), *filter(None, [base.get("PYTHONPATH")])]
    found = {
        **base,
        "PYTHONPATH": os.pathsep.join(paths),
        "TRAINYARD_HOSTS": ",".join(where.hosts),
        "TRAINYARD_HOST": where.host,
    }
    # A host's own name may lead to loopback or to another network.
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        found.setdefault(name, where.interface)
    if key_file is not None:
        found[courier.ADDRESS] = f"{where.hosts[0]}:{where.courier_port}"
        found[courier.KEY_FILE] = str(key_file)
        if not where.is_first:
            found[courier.CARRIES] = where.host
    return found


class Launcher:
    """The launcher's process; it ends with this one."""

    def __init__(self, where: Surroundings, variables: Mapping[str, str]) -> None:
        self.log = where.attempt_dir / places.JOB_LOG
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "trainyard_trainers.launch", str(where.attempt_dir)],
                env=dict(variables),
                cwd=where.attempt_dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - it makes one system call
            )
        self._over = threading.Event()
        self._relay = threading.Thread(target=self._show, daemon=True, name="log")
        self._relay.start()

    def ended(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def ask_to_stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """It does not hear."""
        self._process.kill()

    def finish(self) -> None:
        """Show the rest of the log."""
        self._over.set()
        self._relay.join()

    def _show(self) -> None:
        with open(self.log, "rb") as log:
            while True:
                over = self._over.is_set()
                while block := log.read(_BLOCK):
                    sys.stdout.buffer.write(block)
                    sys.stdout.buffer.flush()
                if over:
                    return
                self._over.wait(_POLL_SECONDS)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

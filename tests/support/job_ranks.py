"""Programs that use trainyard_job, as the ranks of a job: real processes with a launcher's
variables.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.patience import patient

_DROPPED = ("RANK", "WORLD_SIZE", "OMPI_", "SLURM_", "TRAINYARD_", "PYTHONWARNINGS")


@dataclass(frozen=True)
class Ended:
    """How a rank ended."""

    code: int
    out: str
    err: str


def environment(run_dir: Path, rank: int, world: int, **more: str) -> dict[str, str]:
    """A rank's variables, without those that these tests run under."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    ours = {
        "TRAINYARD_RUN_DIR": str(run_dir),
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": str(rank),
        "TRAINYARD_RANKS_WAIT_SECONDS": str(patient(60)),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    return {**kept, **ours, **more}


def start(
    run_dir: Path, program: str | Sequence[str], world: int, **more: str
) -> list[subprocess.Popen[str]]:
    """The ranks of a program: its text, or its path and arguments."""
    command = ["-c", program] if isinstance(program, str) else [*program]
    return [
        subprocess.Popen(
            [sys.executable, *command],
            env=environment(run_dir, rank, world, **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]


def ends(ranks: Sequence[subprocess.Popen[str]]) -> list[Ended]:
    """Wait for all; one that hangs is killed, and its code is negative."""
    found = []
    for rank in ranks:
        try:
            out, err = rank.communicate(timeout=patient(240))
        except subprocess.TimeoutExpired:
            rank.kill()
            out, err = rank.communicate()
        found.append(Ended(rank.returncode, out, err))
    return found


def finished(run_dir: Path, program: str | Sequence[str], world: int, **more: str) -> list[Ended]:
    """Start the ranks and wait for them."""
    return ends(start(run_dir, program, world, **more))


def rendezvous() -> dict[str, str]:
    """Where the process group of torch meets: a port that was free."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(found.getsockname()[1])}

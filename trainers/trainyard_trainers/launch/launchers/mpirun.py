"""Recipe `mpirun`: Open MPI over the nodes of the allocation, without ssh and without a Slurm
plug-in of Open MPI's.

mpirun runs on the first node. Its daemon of each node is started by the Trainyard launcher that
Slurm runs there anyway: what mpirun would say to ssh is handed over in a file. So the daemons are
in the job's own step, and end with it. Tried with Open MPI 4.1.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from trainyard_job.common.files import write_json

from ...common.failure import Failure
from .. import ranks
from ..allocation import Allocation, read_hosts
from . import CannotLaunch, program

#: Where AWS's EFA installer puts Open MPI; on no PATH of a process that no shell started.
EFA_INSTALLERS = "/opt/amazon/openmpi/bin"
AGENT = "trainyard-start-daemon"
#: mpirun asks it to start a daemon: `AGENT <host> <command of the daemon>`. The interpreter's path
#: may hold a space, which mpirun would split.
_AGENT_TEXT = (
    '#!/bin/sh\nexec "$TRAINYARD_JOB_PYTHON" -S -m trainyard_trainers.launch.launchers.mpirun '
    'daemon "$@"\n'
)
_RANK = {
    "RANK": "OMPI_COMM_WORLD_RANK",
    "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
    "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
    "LOCAL_WORLD_SIZE": "OMPI_COMM_WORLD_LOCAL_SIZE",
}
#: The job's own TMPDIR, for its ranks; empty if it has none.
_TMPDIR = "TRAINYARD_JOB_TMPDIR"
_POLL_SECONDS = 0.05
#: mpirun has ended, and its daemons end by themselves.
_DAEMON_END_SECONDS = 10.0


def run(allocation: Allocation) -> Failure:
    """Run this node's daemon, and on the first node mpirun, to their ends."""
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", "/usr/bin:/bin"), EFA_INSTALLERS])
    program("mpirun", "Open MPI (Debian and Ubuntu: apt-get install openmpi-bin)")
    ranks.tell(allocation)
    directory = _directory(allocation.job.attempt_dir)
    directory.mkdir(exist_ok=True)
    ranks.pass_signals_on(allocation)
    with tempfile.TemporaryDirectory(prefix="trainyard-mpi-", ignore_cleanup_errors=True) as name:
        own = environment(directory, Path(name))
        main: subprocess.Popen[bytes] | None = None
        if allocation.node.rank == 0:
            _write_files(allocation, directory)
            main = ranks.start(command(allocation), own)
        exit_code = _wait(main, directory / f"{allocation.node.name}.json", own)
    return ranks.outcome(allocation, exit_code)


def _wait(main: subprocess.Popen[bytes] | None, asked: Path, own: dict[str, str]) -> int:
    """Start this node's daemon when mpirun asks for it; mpirun's exit code, or the daemon's where
    mpirun is not.
    """
    daemon: subprocess.Popen[bytes] | None = None
    while True:
        if daemon is None and asked.exists():
            daemon = ranks.start(json.loads(asked.read_text(encoding="utf-8"))["argv"], own)
        if main is not None and main.poll() is not None:
            if daemon is not None:
                _let_end(daemon)
            return main.returncode
        if main is None and daemon is not None and daemon.poll() is not None:
            return daemon.returncode
        time.sleep(_POLL_SECONDS)


def _let_end(daemon: subprocess.Popen[bytes]) -> None:
    try:
        daemon.wait(_DAEMON_END_SECONDS)
    except subprocess.TimeoutExpired:
        daemon.kill()


def _write_files(allocation: Allocation, directory: Path) -> None:
    (directory / "hostfile").write_text(hostfile(allocation), encoding="utf-8")
    agent = directory / AGENT
    agent.write_text(_AGENT_TEXT, encoding="utf-8")
    agent.chmod(0o755)


def hostfile(allocation: Allocation) -> str:
    """Open MPI's: one node a line, in the order of the ranks."""
    return "".join(f"{address} slots={allocation.processes}\n" for address in allocation.addresses)


def command(allocation: Allocation) -> list[str]:
    """mpirun's argument list. The program's own strings are arguments of their own at its end."""
    options = {
        "plm": "rsh",
        "plm_rsh_agent": AGENT,
        "plm_rsh_no_tree_spawn": "1",
    }
    if allocation.on_loopback:
        options |= {"oob_tcp_if_include": "lo", "btl_tcp_if_include": "lo"}
    return [
        "mpirun",
        "--hostfile",
        str(_directory(allocation.job.attempt_dir) / "hostfile"),
        "-np",
        str(allocation.world_size),
        "--map-by",
        f"ppr:{allocation.processes}:node",
        "--bind-to",
        "none",
        # The daemons stay children of the launchers that started them.
        "--leave-session-attached",
        *(word for name, value in options.items() for word in ("--mca", name, value)),
        sys.executable,
        "-u",
        "-m",
        "trainyard_trainers.launch.launchers.mpirun",
        "rank",
        *allocation.job.command(),
    ]


def environment(directory: Path, temporary: Path) -> dict[str, str]:
    """The environment without Slurm's variables: with them Open MPI would start its daemons with
    srun, as steps that nobody watches.

    `temporary` is this part's own. Open MPI puts all jobs of a user on a host below one directory,
    makes it if it is missing and removes it if it is empty: then a daemon that starts beside
    another job's start or end fails ("orte_session_dir failed", exit code 213).
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SLURM_", "PMI_", "PMIX_"))
    }
    return {
        **kept,
        "PATH": f"{directory}{os.pathsep}{os.environ.get('PATH', '')}",
        "TRAINYARD_JOB_PYTHON": sys.executable,
        "TMPDIR": str(temporary),
        _TMPDIR: os.environ.get("TMPDIR", ""),
        # Jobs of HyperPod clusters often run as root.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }


def _directory(attempt_dir: Path) -> Path:
    return attempt_dir / "mpirun"


# -- what Open MPI starts ------------------------------------------------------------------------
def main(argv: Sequence[str]) -> None:
    """`rank <program>`: be one rank. `daemon <host> <command>`: take the place of ssh."""
    if argv[0] == "rank":
        os.environ.update(
            {ours: os.environ[theirs] for ours, theirs in _RANK.items() if theirs in os.environ}
        )
        _restore_tmpdir()
        ranks.run(argv[1:])
    else:
        hand_over(Path(os.environ["TRAINYARD_ATTEMPT_DIR"]), argv[1], argv[2:])


def _restore_tmpdir() -> None:
    """Give the rank the job's own TMPDIR: the daemon's is for Open MPI alone, and ends with it."""
    if theirs := os.environ.pop(_TMPDIR, ""):
        os.environ["TMPDIR"] = theirs
    else:
        os.environ.pop("TMPDIR", None)


def hand_over(attempt_dir: Path, host: str, words: Sequence[str]) -> None:
    """What mpirun runs in ssh's place: give the daemon's command to the launcher of that node.

    Raises CannotLaunch.
    """
    names = {address: name for name, address in read_hosts(attempt_dir).items()}
    argv = daemon_command(words)
    write_json(_directory(attempt_dir) / f"{names.get(host, host)}.json", {"argv": argv})


def daemon_command(words: Sequence[str]) -> list[str]:
    """The daemon's argument list out of the shell line that is meant for ssh.

    No shell reads it here. Raises CannotLaunch.
    """
    argv = shlex.split(" ".join(words))
    start = next((place for place, word in enumerate(argv) if Path(word).name == "orted"), None)
    if start is None:
        raise CannotLaunch(
            "this mpirun starts its daemons in a way that Trainyard does not know: "
            f"{' '.join(words)[:500]}"
        )
    return argv[start:]


if __name__ == "__main__":
    main(sys.argv[1:])

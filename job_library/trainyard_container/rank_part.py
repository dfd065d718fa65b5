"""A rank that AWS's own launcher started (torchrun, SMDDP, MPI): it runs the user's program, beside
a keeper that the first rank of its host starts. The launcher runs our entry once for each rank.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from trainyard_contracts import places
from trainyard_job.common.files import write_json
from trainyard_trainers.launch import ranks
from trainyard_trainers.launch.allocation import Job

from . import script_mode
from .launching import LIBRARY, environment
from .surroundings import Surroundings, Unfit

#: Below /opt/ml: where the ranks of one host and their keeper find each other.
ROOM = "trainyard-host"
READY, FAILED, OVER = "ready.json", "failed.json", "over.json"
_POLL_SECONDS = 0.1
#: A rank is one of these: torchrun's variables, and Open MPI's.
_RANKS = {
    "RANK": "OMPI_COMM_WORLD_RANK",
    "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
    "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
    "LOCAL_WORLD_SIZE": "OMPI_COMM_WORLD_LOCAL_SIZE",
}
#: Linux, <sys/prctl.h>.
_PR_SET_PDEATHSIG = 1
#: Set for the keeper: it is no rank, whatever variables it inherited.
KEEPER = "TRAINYARD_KEEPER"


def is_rank(variables: Mapping[str, str]) -> bool:
    """Whether a launcher started this process as one of several."""
    found = variables.get("LOCAL_RANK") or variables.get(_RANKS["LOCAL_RANK"])
    return bool(found) and not variables.get(KEEPER)


def room(where: Surroundings) -> Path:
    """Of this attempt: instances of a warm pool keep what an earlier job left."""
    return where.ml / ROOM / f"{where.run_id}-{where.attempt}"


class Rank:
    """This process; the program is a child of it."""

    def __init__(self, where: Surroundings) -> None:
        self._where, self._room = where, room(where)
        self._keeper: subprocess.Popen[bytes] | None = None
        self._child = 0
        self._lock = -1
        for name, other in _RANKS.items():
            os.environ.setdefault(name, os.environ.get(other, ""))
        self._local = os.environ["LOCAL_RANK"]

    def run(self, secrets: Mapping[str, str]) -> int:
        """The exit code of this rank. Raises Unfit, OSError."""
        self._room.mkdir(parents=True, exist_ok=True)
        self._start_keeper()
        job = Job.read(Path(self._await(READY)["attemptDir"]))
        self._child = os.fork()
        if self._child == 0:
            self._become(job, secrets)
        write_json(self._room / f"rank-{self._local}.json", {"pid": os.getpid()})
        signal.signal(signal.SIGTERM, self._pass_on)
        code = os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])
        code = code if code >= 0 else 128 - code
        ended = {"pid": os.getpid(), "code": code}
        write_json(self._room / f"rank-{self._local}.json", ended)
        # This rank's end may end the job: what there is has to be in S3 first.
        try:
            over = self._await(OVER)
        except Unfit as unfit:
            print(f"trainyard: {unfit}", file=sys.stderr, flush=True)
            over = {"code": 1}
        return code or int(over["code"])

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child, number)

    def _start_keeper(self) -> None:
        """By the first of this host's ranks that comes; the lock goes with that rank."""
        self._lock = os.open(self._room / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        paths = [str(LIBRARY), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "trainyard_container"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), KEEPER: "1"},
            stdin=subprocess.DEVNULL,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - it makes one system call
        )

    def _await(self, name: str) -> dict[str, Any]:
        """What the keeper writes. Raises Unfit where it failed, or is gone."""
        while True:
            for file in (name, FAILED):
                found = _read(self._room / file)
                if found and file == FAILED:
                    raise Unfit(str(found["reason"]))
                if found:
                    return found
            if self._keeper is None and self._has_no_keeper():
                raise Unfit("the rank that started this host's keeper is gone")
            if self._keeper is not None and self._keeper.poll() is not None:
                if found := _read(self._room / name):  # its last word
                    return found
                raise Unfit(f"this host's keeper ended with {self._keeper.returncode}")
            time.sleep(_POLL_SECONDS)

    def _has_no_keeper(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return not any((self._room / file).exists() for file in (READY, FAILED, OVER))

    def _become(self, job: Job, secrets: Mapping[str, str]) -> None:
        """The program, in a child of this one that `ranks` watches; it does not return."""
        key_file = job.attempt_dir / "courier.key"
        several = len(self._where.hosts) > 1
        os.environ.update({**script_mode.variables(self._where, job), **secrets})
        os.environ.update(job.environment())
        os.environ.update(environment(self._where, os.environ, key_file if several else None))
        os.environ["PYTHONPATH"] = os.pathsep.join([str(job.work_dir), os.environ["PYTHONPATH"]])
        sys.path.insert(0, str(job.work_dir))
        os.environ["TRAINYARD_WORLD_SIZE"] = os.environ["WORLD_SIZE"]
        os.environ["TRAINYARD_NODE_NAME"] = self._where.host
        (job.attempt_dir / "ranks").mkdir(exist_ok=True)
        os.chdir(job.work_dir)
        ranks.run(job.command())
        sys.exit(0)  # in the program's own process, when it has ended well


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}


class Ranks:
    """This host's ranks, as the keeper sees them: in the place of a launcher."""

    def __init__(self, where: Surroundings, variables: Mapping[str, str]) -> None:
        self._where, self._room = where, room(where)
        self._size = int(variables.get("LOCAL_WORLD_SIZE") or 1)
        self.log = where.attempt_dir / places.JOB_LOG
        write_json(self._room / READY, {"attemptDir": str(where.attempt_dir)})

    def _all(self) -> list[dict[str, Any]]:
        return [_read(self._room / f"rank-{number}.json") for number in range(self._size)]

    def ended(self) -> int | None:
        """The first failure's code once all have ended; None while one runs."""
        codes = [self._code(one) for one in self._all()]
        if any(code is None for code in codes):
            return None
        return next((code for code in codes if code), 0)

    @staticmethod
    def _code(one: Mapping[str, Any]) -> int | None:
        if not one:
            return None
        if "code" not in one and not Path(f"/proc/{one['pid']}").exists():
            return 128 + signal.SIGKILL
        return one.get("code")

    def failed(self) -> bool:
        """Whether one has failed, while others may run."""
        return any(self._code(one) for one in self._all())

    def ask_to_stop(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """The programs of those that do not hear; each rank then says how its own ended."""
        for report in self._reports():
            if "ended" not in report:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(report["pid"]), signal.SIGKILL)

    def _signal(self, number: int) -> None:
        for one in self._all():
            if one and "code" not in one:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(one["pid"]), number)

    def _reports(self) -> list[dict[str, Any]]:
        found = (self._where.attempt_dir / "ranks").glob(f"{self._where.host}.*.json")
        return [report for path in sorted(found) if (report := _read(path))]

    def finish(self) -> None:
        """Say of this host what its launcher would: how the rank ended that failed first."""
        reports = self._reports()
        failed = [one for one in reports if one.get("kind") not in (None, "stopped")]
        failed.sort(key=lambda one: (one.get("kind") == "peer", float(one.get("ended") or 0)))
        unended = [one for one in reports if "ended" not in one]
        chosen = next(iter([*failed, *unended, *reports]), {})
        said = {**chosen, "node": self._where.host}
        write_json(self._where.attempt_dir / places.launch_report(self._where.host), said)

"""Small real jobs (gloo, several ranks), forked in tenths of a second from a server with torch."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.patience import patient
from tests.support.ports import free_port
from tests.support.waiting import eventually

from trainyard_job.common.attempt import Attempt

FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(
    ["torch", "torch.distributed", "torch._dynamo", "trainyard_trainers.loop"]
)


def run_rank(
    target: Callable[..., int], arguments: tuple[Any, ...], environment: Mapping[str, str], log: str
) -> None:
    """One rank's process: its output goes to its log, its exit status is the target's result."""
    os.environ.update(environment)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    import torch

    torch.set_num_threads(1)
    sys.exit(target(*arguments))


@dataclass
class ForkedJob:
    """One attempt of a run: `world_size` ranks run an importable module's `target(*arguments)`."""

    run_dir: Path
    attempt: int
    target: Callable[..., int]
    arguments: tuple[Any, ...] = ()
    world_size: int = 2
    environment: Mapping[str, str] = field(default_factory=dict)
    run_id: str = "run-x"

    def start(self) -> ForkedJob:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.run_dir / "fence").write_text(str(self.attempt))
        port = str(free_port())
        self.processes = [self._start(rank, port) for rank in range(self.world_size)]
        return self

    def _start(self, rank: int, port: str) -> Any:
        environment = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_WORLD_SIZE": str(self.world_size),
            "GROUP_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "TRAINYARD_RUN_ID": self.run_id,
            "TRAINYARD_ATTEMPT": str(self.attempt),
            "TRAINYARD_RUN_DIR": str(self.run_dir),
            **self.environment,
        }
        log = str(self.directory / f"rank-{rank}.log")
        process = FORKSERVER.Process(
            target=run_rank, args=(self.target, self.arguments, environment, log)
        )
        process.start()
        return process

    @property
    def directory(self) -> Path:
        return self.run_dir / "attempts" / str(self.attempt)

    @property
    def checkpoints(self) -> Path:
        return self.run_dir / "checkpoints"

    def of(self) -> Attempt:
        """The attempt as its processes see it."""
        return Attempt(self.run_id, self.attempt, self.run_dir, self.directory, self.checkpoints)

    def log(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.directory.glob("rank-*.log")))

    def wait(self, seconds: float = 60) -> list[int]:
        """Exit status of every rank; negative: killed by that signal."""
        deadline = time.monotonic() + patient(seconds)
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
        codes = [process.exitcode for process in self.processes]
        assert None not in codes, (
            f"still running after {patient(seconds):.0f} s: {codes}\n{self.log()}"
        )
        return codes

    def until(self, what: str, condition: Callable[[], Any], seconds: float = 60) -> Any:
        """The condition's first true value, while the job runs."""

        def look() -> Any:
            found = condition()
            assert found or any(process.is_alive() for process in self.processes), (
                f"ended before: {what}"
            )
            return found

        try:
            return eventually(what, look, seconds, poll=0.002)
        except AssertionError as error:
            codes = [process.exitcode for process in self.processes]
            raise AssertionError(f"{error}; exit codes so far: {codes}\n{self.log()}") from None

    def until_step(self, step: int) -> int:
        return int(self.until(f"step {step}", lambda: (now := self.step()) >= step and now))

    def step(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            return int(json.loads((self.directory / "progress.json").read_text())["step"])
        return 0

    def losses(self) -> dict[int, float]:
        """The loss of every step of this attempt."""
        lines = [
            json.loads(line) for line in (self.directory / "steps.jsonl").read_text().splitlines()
        ]
        return {line["step"]: line["loss"] for line in lines}

    def signal(self, number: int) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def kill(self) -> None:
        """SIGKILL every rank; nothing of it is left when this returns."""
        self.signal(signal.SIGKILL)
        self.wait(20)


@contextlib.contextmanager
def running(job: ForkedJob) -> Iterator[ForkedJob]:
    """The job, started; killed at the end if it still runs."""
    try:
        yield job.start()
    finally:
        job.kill()

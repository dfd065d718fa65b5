"""torchrun on loopback: a killed, torn, stopped or fenced run ends with a plain run's bits."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from tests.support.repository import ROOT
from tests.support.waiting import eventually

STEPS = 60
#: For what has to end before its last step.
ENDLESS = ["--steps", "100000", "--step-seconds", "0.05"]
#: Loaded by every Python of a job: its trainer stands still at a step while a file is there.
#: So what disturbs it comes before its end, however late.
HELD = """
import json, os, sys, time
real = time.sleep

def reached(attempt):
    try:
        with open(attempt + "/hold") as hold, open(attempt + "/progress.json") as progress:
            return json.load(progress)["step"] >= int(hold.read())
    except (OSError, ValueError):
        return False

def sleep(seconds):
    real(seconds)
    if sys._getframe(1).f_globals.get("__name__") == "trainyard_trainers.loop.loop":
        while reached(os.environ["TRAINYARD_ATTEMPT_DIR"]):
            real(0.01)

time.sleep = sleep
"""


def tcp_of(process: psutil.Process) -> list[Any]:
    """None of a process that ended since it was seen."""
    try:
        return list(process.net_connections("tcp"))
    except psutil.NoSuchProcess:
        return []


class Job:
    """The processes of one attempt, one launcher for each node."""

    def __init__(
        self,
        run_dir: Path,
        attempt: int,
        *,
        nodes: int = 1,
        processes: int = 2,
        step_seconds: float = 0.01,
        script: str = "",
        name: str = "mine.py",
        hold_at: int | None = None,
        **fields: object,
    ) -> None:
        self.directory = run_dir / "attempts" / str(attempt)
        self.directory.mkdir(parents=True)
        (run_dir / "work").mkdir(exist_ok=True)
        if hold_at is not None:
            self.hold(hold_at)
            (self.directory / "site").mkdir()
            (self.directory / "site" / "sitecustomize.py").write_text(HELD)
        (run_dir / "work" / name).write_text(script)
        (run_dir / "fence").write_text(str(attempt))
        arguments = ["--steps", str(STEPS), "--step-seconds", str(step_seconds)]
        document = {
            "runId": "run-x",
            "attempt": attempt,
            "program": ["-m", "trainyard_trainers.ddp"],
            "arguments": arguments,
            "processesPerNode": processes,
            "checkpointEverySteps": 7,
            **fields,
        }
        (self.directory / "job.json").write_text(json.dumps(document))
        (self.directory / "hosts").write_text(
            "".join(f"node-{rank} 127.0.0.1\n" for rank in range(nodes))
        )
        self.processes = [self._start(rank, nodes) for rank in range(nodes)]

    def _start(self, rank: int, nodes: int) -> subprocess.Popen[bytes]:
        slurm = {
            "SLURM_PROCID": str(rank),
            "SLURM_NNODES": str(nodes),
            "SLURM_JOB_ID": f"{os.getpid()}-{time.monotonic_ns()}" if nodes == 1 else "5",
        }
        path = os.pathsep.join(
            filter(None, [str(self.directory / "site"), os.environ.get("PYTHONPATH")])
        )
        place = {
            "PYTHONPATH": path,
            "SLURM_JOB_NODELIST": f"node-[0-{nodes - 1}]",
            "SLURMD_NODENAME": f"node-{rank}",
        }
        command = [sys.executable, "-m", "trainyard_trainers.launch", str(self.directory)]
        with open(self.directory / f"node-{rank}.log", "wb") as log:
            return subprocess.Popen(
                command,
                env={**os.environ, **slurm, **place},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_for_step(self, step: int) -> int:
        def look() -> int | None:
            if (self.directory / "progress.json").exists():
                now = int(json.loads((self.directory / "progress.json").read_text())["step"])
                if now >= step:
                    return now
            assert any(process.poll() is None for process in self.processes), "it ended before"
            return None

        try:
            return int(eventually(f"step {step}", look, 30, poll=0.005))
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.log()}") from None

    def hold(self, step: int) -> None:
        """It stands still after this step. Its saves go on."""
        (self.directory / "hold.new").write_text(str(step))
        (self.directory / "hold.new").replace(self.directory / "hold")

    def wait_for_checkpoints(self, count: int) -> list[Path]:
        """The committed ones, oldest first. A save may take as long as many steps."""
        checkpoints = self.directory.parents[1] / "checkpoints"
        eventually(
            f"{count} checkpoints", lambda: len(list(checkpoints.glob("step-*"))) >= count, 60
        )
        return sorted(checkpoints.glob("step-*"))

    def newest(self) -> int:
        """The step of the newest committed checkpoint, or 0."""
        found = (self.directory.parents[1] / "checkpoints").glob("step-*")
        return max((int(path.name[5:17]) for path in found), default=0)

    def wait_for_newer(self, than: int) -> int:
        return (
            int(eventually(f"later than step {than}", lambda: max(0, self.newest() - than))) + than
        )

    def release(self) -> None:
        """It trains on."""
        (self.directory / "hold").unlink()

    def kill(self) -> None:
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait(120)

    def wait(self) -> list[int]:
        return [process.wait(120) for process in self.processes]

    def report(self, rank: int = 0) -> dict[str, object]:
        return dict(json.loads((self.directory / f"launch-node-{rank}.json").read_text()))

    def log(self, rank: int = 0) -> str:
        return (self.directory / f"node-{rank}.log").read_text()

    def addresses(self) -> set[str]:
        """Where its processes listen."""
        launchers = [psutil.Process(process.pid) for process in self.processes]
        everything = [
            *launchers,
            *(child for launcher in launchers for child in launcher.children(recursive=True)),
        ]
        return {
            port.laddr.ip
            for process in everything
            for port in tcp_of(process)
            if port.status == psutil.CONN_LISTEN
        }

    def resumed_from(self) -> int | None:
        value = json.loads((self.directory / "progress.json").read_text())["resumedFrom"]
        return None if value is None else int(value)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def start_one(*arguments: object, **options: object) -> Job:
        jobs.append(Job(tmp_path / "run", *arguments, **options))  # type: ignore[arg-type]
        return jobs[-1]

    yield start_one
    for job in jobs:
        job.kill()


def final_bytes(run_dir: Path) -> bytes:
    assert json.loads((run_dir / "final" / "manifest.json").read_text())["step"] == STEPS
    return (run_dir / "final" / "model.pt").read_bytes()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    run_dir = tmp_path_factory.mktemp("uninterrupted") / "run"
    job = Job(run_dir, 1)
    assert job.wait() == [0], job.log()
    return final_bytes(run_dir)


def test_a_run_killed_at_random_points_ends_with_equal_weights(
    start: Callable[..., Job], tmp_path: Path, uninterrupted: bytes
) -> None:
    chance, committed = random.Random(20261120), 0
    for attempt, step in ((1, 15), (2, 30), (3, 45)):
        disturbed = step + chance.randrange(7)
        job = start(attempt, hold_at=disturbed + 2)
        job.wait_for_step(disturbed)
        if attempt < 3:
            committed = job.wait_for_newer(committed)
        # No condition to wait for: the point is to die anywhere, also in the middle of a save.
        time.sleep(chance.random() * 0.02)
        job.kill()
    newest = job.newest()
    last = start(4)
    assert last.wait() == [0], last.log()
    assert last.resumed_from() == newest >= committed > 0
    assert final_bytes(tmp_path / "run") == uninterrupted


def test_two_nodes_lose_a_worker_then_a_checkpoint_and_still_end_equal(
    start: Callable[..., Job], tmp_path: Path, uninterrupted: bytes
) -> None:
    first = start(1, nodes=2, processes=1, hold_at=10)
    first.wait_for_checkpoints(1)
    first.hold(20)
    first.wait_for_step(20)
    first.wait_for_checkpoints(2)
    assert first.addresses() == {"127.0.0.1"}
    worker = trainer_below(first.processes[1].pid)
    os.kill(worker, signal.SIGKILL)
    first.release()
    assert first.wait() == [1, 137], first.log()
    assert (first.report(1)["kind"], first.report(1)["signal"], first.report(1)["rank"]) == (
        "signal",
        9,
        1,
    )
    assert (first.report(0)["kind"], first.report(0)["signal"]) == ("peer", None)
    checkpoints = first.wait_for_checkpoints(2)
    (checkpoints[-1] / "model.pt").write_bytes(b"torn")
    second = start(2, nodes=2, processes=1)
    assert second.wait() == [0, 0], second.log()
    assert second.resumed_from() == int(checkpoints[-2].name[5:17])
    assert f"checkpoint {checkpoints[-1].name} is not whole and is skipped" in second.log()
    assert final_bytes(tmp_path / "run") == uninterrupted
    assert checkpoints[-1].exists()


def trainer_below(pid: int) -> int:
    """A rank's process: launcher -> torchrun's agent -> trainer -> its writing process."""
    return next(
        child.pid
        for child in psutil.Process(pid).children(recursive=True)
        if child.name().startswith("trainer-")
    )


def test_a_stop_checkpoints_at_the_next_step_boundary_and_loses_nothing(
    start: Callable[..., Job], tmp_path: Path, uninterrupted: bytes
) -> None:
    first = start(1, checkpointEverySteps=1000, hold_at=30)
    first.wait_for_step(10)
    first.processes[0].send_signal(signal.SIGUSR2)  # a checkpoint, and on
    first.wait_for_step(20)
    os.killpg(first.processes[0].pid, signal.SIGTERM)  # as Slurm does it: every process of the step
    first.release()
    assert first.wait() == [143], first.log()
    assert first.report()["kind"] == "stopped"
    steps = sorted(int(path.name[5:17]) for path in (tmp_path / "run" / "checkpoints").iterdir())
    # One for each rank that was asked at another step than the other, and one for the stop.
    assert 2 <= len(steps) <= 3
    assert f"asked to stop: stopped after step {steps[-1]}" in first.log()
    second = start(2)
    assert second.wait() == [0], second.log()
    assert second.resumed_from() == steps[-1]
    assert final_bytes(tmp_path / "run") == uninterrupted


def test_an_attempt_that_is_fenced_while_it_trains_commits_nothing_more_and_says_so(
    start: Callable[..., Job], tmp_path: Path
) -> None:
    job = start(1, arguments=ENDLESS)
    job.wait_for_step(8)
    (tmp_path / "run" / "fence").write_text("2")
    assert job.wait() == [79], job.log()
    assert job.report()["kind"] == "fenced"
    assert "attempt 1 is fenced" in job.log()
    assert not (tmp_path / "run" / "final").exists()


def test_an_error_in_a_users_program_keeps_its_traceback(start: Callable[..., Job]) -> None:
    script = (
        "import os, time\nif os.environ['RANK'] == '1': raise KeyError('no such feature')\n"
        "time.sleep(60)"
    )
    job = start(1, program=["mine.py"], arguments=[], script=script)
    assert job.wait() == [1], job.log()
    assert (job.report()["kind"], job.report()["rank"], job.report()["error"]) == (
        "python-error",
        1,
        "KeyError: 'no such feature'",
    )
    assert "mine.py" in str(job.report()["traceback"])


def test_a_job_that_cannot_save_says_so_and_stops_after_three_times(
    start: Callable[..., Job], tmp_path: Path
) -> None:
    job = start(1, arguments=ENDLESS, checkpointEverySteps=3)
    job.wait_for_step(5)
    checkpoints = tmp_path / "run" / "checkpoints"
    for number in range(100):
        checkpoints.rename(tmp_path / f"away-{number}")
        try:
            checkpoints.write_text("no directory, so nothing can be written there")
        except IsADirectoryError:  # the next save made it anew in between
            continue
        break
    assert job.wait() == [74], job.log()
    assert job.report()["kind"] == "checkpoint"
    assert job.log().count("was not committed") == 3


def test_the_example_of_an_own_script_trains_is_stopped_and_resumes(
    start: Callable[..., Job], tmp_path: Path
) -> None:
    document = yaml.safe_load((ROOT / "examples" / "own-script.yaml").read_text())
    job = document["job"]
    options = {
        "program": [job["script"]],
        "script": job["files"]["train.py"],
        "name": job["script"],
        "environment": job["environment"],
    }
    first = start(1, arguments=[*job["arguments"], "--steps", "100000"], **options)
    step = first.wait_for_step(20)
    os.killpg(first.processes[0].pid, signal.SIGTERM)
    assert first.wait() == [143], first.log()
    second = start(2, arguments=[*job["arguments"], "--steps", "20"], **options)
    assert second.wait() == [0], second.log()
    assert json.loads((tmp_path / "run" / "final" / "manifest.json").read_text())["step"] >= step

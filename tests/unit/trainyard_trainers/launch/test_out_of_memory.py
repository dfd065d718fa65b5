"""A process that the kernel killed for want of memory is told from one that somebody killed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainyard_trainers.common.failure import Failure
from trainyard_trainers.launch.out_of_memory import MemoryWatch

KILLED = Failure(137, 9, rank=3, pid=4711)


class Machine:
    """A /proc, a tree of cgroups and a kernel's log of its own."""

    def __init__(self, directory: Path, *, version: int, log: bool = True) -> None:
        self.proc, self.cgroups, self._log = (
            directory / "proc",
            directory / "cgroup",
            directory / "kmsg",
        )
        (self.proc / "self").mkdir(parents=True)
        line = (
            "0::/slurm/job_7/step_0"
            if version == 2
            else "4:memory:/slurm/job_7/step_0\n1:cpu:/other\n0::/"
        )
        (self.proc / "self/cgroup").write_text(line)
        self._top = self.cgroups if version == 2 else self.cgroups / "memory"
        self._names = (
            ("memory.events", "memory.max")
            if version == 2
            else ("memory.oom_control", "memory.limit_in_bytes")
        )
        (self._top / "slurm/job_7/step_0").mkdir(parents=True)
        (self._top / "slurm/job_7" / self._names[1]).write_text("16000000000")
        self.kills(0)
        if log:
            self._log.write_bytes(b"")
        self.watch = MemoryWatch(self.proc, self.cgroups, self._log)

    def kills(self, count: int, *, of_machine: int = 0) -> None:
        (self._top / "slurm/job_7" / self._names[0]).write_text(f"low 0\noom 3\noom_kill {count}\n")
        (self.proc / "vmstat").write_text(f"pgfault 5\noom_kill {of_machine}\nfoo 1\n")

    def kills_in(self, group: str, count: int) -> None:
        """Kills that a group counts; one outside the job's line is made for it."""
        (self._top / group).mkdir(exist_ok=True)
        (self._top / group / self._names[0]).write_text(f"oom_kill {count}\n")

    def says(self, pid: int, *, at: float | None = None) -> None:
        """A line as Linux writes it. The file stands for the device; a read gives one record."""
        seconds = time.monotonic() if at is None else at
        text = (
            f"Memory cgroup out of memory: Killed process {pid} (trainer-3) "
            "total-vm:9kB, anon-rss:15000000kB, file-rss:1kB"
        )
        self._log.write_text(f"3,812,{int(seconds * 1e6)},-;{text}\n")

    def kind(self, end: Failure = KILLED) -> str | None:
        return self.watch.blamed_for(end).kind


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("place", "ours"),
    [("slurm", False), ("slurm/job_7", True), ("slurm/job_7/step_0", True), ("other", False)],
)
def test_a_neighbours_kill_is_not_ours(
    tmp_path: Path, version: int, place: str, ours: bool
) -> None:
    """Groups above the job's count the kills of all jobs below them."""
    machine = Machine(tmp_path, version=version)
    machine.kills_in(place, 1)
    assert machine.kind() == ("out-of-memory" if ours else "signal")


@pytest.mark.parametrize(("place", "ours"), [("pods", False), ("pods/a", True)])
def test_outside_slurm_the_innermost_group_alone_is_ours(
    tmp_path: Path, place: str, ours: bool
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/pods/a\n")
    (tmp_path / "cgroup/pods/a").mkdir(parents=True)
    (tmp_path / "kmsg").write_bytes(b"")
    watch = MemoryWatch(tmp_path / "proc", tmp_path / "cgroup", tmp_path / "kmsg")
    (tmp_path / "cgroup" / place / "memory.events").write_text("oom_kill 1\n")
    assert watch.blamed_for(KILLED).kind == ("out-of-memory" if ours else "signal")


@pytest.mark.parametrize("version", [1, 2])
def test_a_kill_in_the_jobs_own_cgroup_is_one_for_want_of_memory(
    tmp_path: Path, version: int
) -> None:
    machine = Machine(tmp_path, version=version)
    assert machine.kind() == "signal"
    machine.kills(2)
    found = machine.watch.blamed_for(KILLED)
    assert found.kind == "out-of-memory"
    assert found.as_json()["error"] == (
        "the kernel's out-of-memory killer ended 2 of the job's processes; "
        "their cgroup may use 16.0 GB"
    )  # fmt: skip
    assert (found.signal, found.rank) == (9, 3)
    assert machine.kind(Failure(139, 11)) == "signal", "the kernel's killer sends SIGKILL"
    assert machine.kind(Failure(0)) is None


def test_the_kernels_log_names_the_process(tmp_path: Path) -> None:
    machine = Machine(tmp_path, version=2)
    machine.kills(0, of_machine=1)
    assert machine.kind() == "signal", "the log can be read, and does not say so"
    machine.says(999)
    assert machine.kind() == "signal", "a process of another job on this machine"
    machine.says(4711, at=time.monotonic() - 3600)
    assert machine.kind() == "signal", "an older process had the same number"
    machine.says(4711)
    error = machine.watch.blamed_for(KILLED).as_json()["error"]
    assert (
        error == "the kernel's out-of-memory killer ended process 4711 (trainer-3), "
        "which had 15.4 GB in memory"
    )


def test_without_the_right_to_read_the_log_the_machines_counter_tells(tmp_path: Path) -> None:
    machine = Machine(tmp_path, version=2, log=False)
    assert machine.kind() == "signal"
    machine.kills(0, of_machine=1)
    assert machine.kind() == "out-of-memory"


def test_a_machine_that_tells_nothing_is_no_evidence(tmp_path: Path) -> None:
    watch = MemoryWatch(tmp_path / "proc", tmp_path / "cgroup", tmp_path / "kmsg")
    assert watch.blamed_for(KILLED).kind == "signal"


# -- with the real kernel ------------------------------------------------------------------------
@pytest.fixture
def small_group() -> Iterator[Path]:
    """A memory cgroup with a limit of 150 MB, of whichever version this machine has."""
    top = (
        Path("/sys/fs/cgroup/memory")
        if Path("/sys/fs/cgroup/memory").is_dir()
        else Path("/sys/fs/cgroup")
    )
    group = top / f"trainyard-test-{os.getpid()}"
    try:
        group.mkdir()
        limit = group / (
            "memory.max" if (group / "memory.max").exists() else "memory.limit_in_bytes"
        )
        limit.write_text("150000000")
        for swap in ("memory.swap.max", "memory.memsw.limit_in_bytes"):
            with contextlib.suppress(OSError):
                if (group / swap).exists():
                    (group / swap).write_text("0" if swap == "memory.swap.max" else "150000000")
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here; run as root: {error}")
    yield group
    for _ in range(100):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.05)


@pytest.mark.real
@pytest.mark.parametrize("who", ["the kernel", "somebody"])
def test_launch_says_whether_the_kernel_killed_the_program_for_want_of_memory(
    tmp_path: Path, small_group: Path, who: str
) -> None:
    directory = tmp_path / "run/attempts/2"
    directory.mkdir(parents=True)
    (tmp_path / "run/work").mkdir()
    program = (
        "held = [b'x' * 10_000_000 for _ in range(100)]"
        if who == "the kernel"
        else "import os; os.kill(os.getpid(), 9)"
    )
    (tmp_path / "run/work/main.py").write_text(program)
    (directory / "job.json").write_text(
        json.dumps({"runId": "run-x", "attempt": 2, "program": ["main.py"], "recipe": "command"})
    )
    subprocess.run(
        [sys.executable, "-m", "trainyard_trainers.launch", str(directory)],
        preexec_fn=lambda: (small_group / "cgroup.procs").write_text(str(os.getpid())) and None,
        timeout=240,
        check=False,
        capture_output=True,
    )
    report = json.loads((directory / "launch-localhost.json").read_text())
    expected = "out-of-memory" if who == "the kernel" else "signal"
    assert (report["kind"], report["signal"], report["exitCode"]) == (expected, 9, 137)
    assert ("out-of-memory killer" in (report["error"] or "")) == (who == "the kernel")

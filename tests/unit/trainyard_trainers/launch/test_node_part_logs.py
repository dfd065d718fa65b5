"""Under each launcher a rank has a log of its own, and the job's log has what it had before."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.waiting import eventually

pytestmark = pytest.mark.real

#: A program that says its rank on both streams, past Python's own, too, and ends without an end.
PROGRAM = """
import os, sys
rank = os.environ.get("RANK", "alone")
for line in range(20):
    print(f"rank {rank} line {line}")
print(f"rank {rank} error", file=sys.stderr)
sys.stdout.flush()
os.write(1, f"rank {rank} raw\\n".encode())
sys.stdout.write(f"rank {rank} ends")
"""


def written(rank: str) -> list[str]:
    more = [f"rank {rank} error", f"rank {rank} raw", f"rank {rank} ends"]
    return [*(f"rank {rank} line {line}" for line in range(20)), *more]


@pytest.fixture
def attempt_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "run" / "attempts" / "1"
    directory.mkdir(parents=True)
    (directory.parents[1] / "work").mkdir()
    return directory


def begin(
    attempt_dir: Path,
    program: str,
    recipe: str,
    ranks: int = 2,
    command: Sequence[str] = ("main.py",),
) -> subprocess.Popen[str]:
    (attempt_dir.parents[1] / "work" / "main.py").write_text(program)
    document = {
        "runId": f"run-{uuid.uuid4().hex}",
        "attempt": 1,
        "program": command,
        "recipe": recipe,
        "processesPerNode": ranks,
    }
    (attempt_dir / "job.json").write_text(json.dumps(document))
    return subprocess.Popen(
        [sys.executable, "-m", "trainyard_trainers.launch", str(attempt_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def lines_of(text: str, rank: str) -> Sequence[str]:
    return [line for line in text.splitlines() if line.startswith(f"rank {rank} ")]


@pytest.mark.parametrize("recipe", ["torchrun", "accelerate", "mpirun"])
def test_each_rank_has_a_file_and_the_jobs_log_has_all(attempt_dir: Path, recipe: str) -> None:
    if recipe == "mpirun" and shutil.which("mpirun") is None:
        pytest.skip("no Open MPI")
    text = begin(attempt_dir, PROGRAM, recipe).communicate(timeout=240)[0]
    logs = attempt_dir / "rank-logs" / "localhost"
    for rank in "01":
        own = (logs / f"rank-{rank}.log").read_text()
        assert own.splitlines()[-len(written(rank)) :] == written(rank)
        shown = text.replace("endsrank", "ends\nrank")  # lines without an end meet
        assert list(lines_of(shown, rank)) == written(rank), text
    assert {path.name for path in logs.iterdir()} == {"rank-0.log", "rank-1.log", "times"}


def test_trainers_that_are_forked_have_files_too(attempt_dir: Path) -> None:
    trainer = ("-m", "trainyard_trainers.ddp")
    text = begin(attempt_dir, "", "torchrun", command=trainer).communicate(timeout=240)[0]
    logs = attempt_dir / "rank-logs" / "localhost"
    assert {path.name for path in logs.glob("*.log")} == {"rank-0.log", "rank-1.log"}
    own = (logs / "rank-0.log").read_text()  # who alone says how far the training is
    assert "step 200 loss" in own
    assert own in text


def test_a_plain_program_has_one_file_for_the_node(attempt_dir: Path) -> None:
    text = begin(attempt_dir, PROGRAM, "command", 1).communicate(timeout=240)[0]
    own = attempt_dir / "rank-logs" / "localhost" / "program.log"
    assert own.read_text().splitlines() == written("alone")
    assert list(lines_of(text, "alone")) == written("alone")


def test_a_launcher_that_is_killed_takes_no_line_with_it(attempt_dir: Path) -> None:
    program = "import time\nprint('before')\ntime.sleep(600)"
    process = begin(attempt_dir, program, "command", 1)
    own = attempt_dir / "rank-logs" / "localhost" / "program.log"
    eventually("it prints", lambda: own.exists() and own.read_text())
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=240)
    assert own.read_text() == "before\n"


def test_the_last_words_of_a_rank_that_is_killed_are_in_the_jobs_log(attempt_dir: Path) -> None:
    program = "import os\nprint('x' * 100_000)\nprint('last words')\nos.kill(os.getpid(), 9)"
    process = begin(attempt_dir, program, "command", 1)
    assert process.communicate(timeout=240)[0].splitlines()[-1] == "last words"
    assert process.returncode == 137


def test_where_no_file_can_be_made_all_is_in_the_jobs_log(attempt_dir: Path) -> None:
    (attempt_dir / "rank-logs").write_text("in the way")
    process = begin(attempt_dir, PROGRAM, "command", 1)
    text = process.communicate(timeout=240)[0]
    assert process.returncode == 0
    assert "all ranks print into the job's log alone" in text
    assert list(lines_of(text, "alone")) == written("alone")


def test_what_outlives_the_program_is_in_the_logs_until_its_end(attempt_dir: Path) -> None:
    program = (
        "import subprocess\n"
        "subprocess.run(['sh', '-c', 'echo a child; sleep 600 &'])\n"
        "print('done')"
    )
    text = begin(attempt_dir, program, "command", 1).communicate(timeout=240)[0]
    *printed, said = text.splitlines()
    assert printed == ["a child", "done"]
    assert said == "trainyard: 1 process of the job outlived it and had to be killed"

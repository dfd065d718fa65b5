"""Jobs that take turns: one takes its steps while the others stand still."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest
from bench import turns
from bench.turns import Job
from tests.support.waiting import eventually

pytestmark = pytest.mark.real
STEPS = """
import os, pathlib, sys, time
while True:
    time.sleep(0.01)
    if os.environ["RANK"] == "0":
        with open(sys.argv[1], "a") as ends:
            ends.write(f"{time.time()}\\n")
"""


def job(place: Path, program: str) -> Job:
    ends = place / "ends"
    ends.touch()
    return Job(
        "steps",
        [sys.executable, "-c", program, str(ends)],
        {},
        lambda: [float(line) for line in ends.read_text().splitlines() if line],
        log=place / "log",
        port=1,
    )


def stopped(steps: Job) -> bool:
    return {psutil.Process(rank.pid).status() for rank in steps._ranks} == {psutil.STATUS_STOPPED}


def test_a_turn_has_its_steps_and_after_it_the_job_stands_still(tmp_path: Path) -> None:
    with job(tmp_path, STEPS) as steps:
        for turn in (3, 2):
            assert len(steps.turn(turn)) == turn
            eventually("all its ranks are stopped", lambda: stopped(steps))


def test_a_job_that_ends_says_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LOOK_SECONDS", 0.001)
    words = "steps ended or hung after 0 steps:\nout of memory"
    failing = job(tmp_path, "raise SystemExit('out of memory')")
    with failing as steps, pytest.raises(SystemExit, match=words):
        steps.turn(1)

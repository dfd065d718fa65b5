"""What signals ask of a program, and that looking at it never harms it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.waiting import eventually

#: Its threads are born and end all the time, as those of torch's engine are.
PROGRAM = """
import sys, threading
from trainyard_job.common.signals import Requests
asked = Requests.install()
def deep(left): return left and deep(left - 1)
print("up", file=sys.stderr, flush=True)
while not asked.stop:
    threads = [threading.Thread(target=deep, args=(50,)) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print("asked to stop", file=sys.stderr, flush=True)
"""


@pytest.mark.real
def test_a_program_whose_stack_is_shown_a_thousand_times_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as stream:
        program = subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=stream)
    try:
        eventually("the program is up", lambda: b"up" in log.read_bytes())

        def shown() -> bool:
            assert program.poll() is None, f"it ended with {program.returncode}"
            program.send_signal(signal.SIGUSR1)
            return log.read_bytes().count(b"most recent call first") >= 1000

        eventually("its stack was shown a thousand times", shown, seconds=60, poll=0.001)
        program.terminate()
        assert program.wait(60) == 0
        assert b"asked to stop" in log.read_bytes()
    finally:
        program.kill()
        program.wait()
